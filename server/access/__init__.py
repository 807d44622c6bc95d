"""Who may use the server, under which name and how often: the first thing that every request meets."""

from __future__ import annotations

from .api_key import check_key as check_key
from .gate import Access as Access
from .gate import request_id as request_id
from .host_names import ANY as ANY
from .host_names import HostNames as HostNames
from .host_names import names_from_environment as names_from_environment
from .request_rates import Rates as Rates
from .request_rates import RateSettings as RateSettings
