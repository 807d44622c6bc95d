"""Whether a text is an error sentence: how such sentences begin, or what they say of their subject.

Words like "failed" within a text prove nothing. A sentence is one when it begins as an error does (``Error ...:``,
``Failed to``, ``Unknown``), or when a short subject is followed at once by what went wrong with it
(``Ref e9 not found``).
"""

from __future__ import annotations

import re

TOOLS_OWN, LABELLED, LED, PLAIN = 4, 3, 2, 1
_I = re.IGNORECASE


def _any(*alternatives: str) -> str:
    return "(?:" + "|".join(alternatives) + ")"


_SORRY = r"(?:(?:i am|i'm|we are|we're) )?(?:sorry|unfortunately|regrettably|apologies|oops)\b"
_LABEL = re.compile(
    r"[^\w'\"`]{0,6}(?:(?:sorry|oops|warning)\W+)?"
    + _any(
        # "Error:", "Tool error:", "Error -32602:", "Failed:", alone or before what went wrong
        r"(?:[^\W_]{1,30}[ ._-]){0,3}?(?:error|exception|failure|fatal)(?: \(?-?\w?\d+\)?)?(?: \(\w+\))?[\])*]*\s*(?::"
        r"|-\s|\Z|\n)",
        r"(?:(?:tool|command|function|code|call|action|operation|request|execution) ){1,3}failed\s*:",
        r"failed\s*(?::|\Z)",
        r"\[(?:error|failed|failure|fail|errno -?\d+)\]",
        # "Error executing tool x: ...", "Error in call: ..."
        r"error (?!handl|messag|code|rate|log|report|count|budget)(?:\w+ing|in|while|when|during|from|with|at|on)\b"
        r"[^\n]{0,200}?(?::|\.\s|\Z|\n)",
        # "An error occurred while ...", "There was a problem with ..."
        r"(?:an?|the following|unexpected|i encountered an?|encountered an?|there (?:was|has been) an?)(?: \w+){0,3}?"
        r" (?:error|exception|problem)\b(?: (?:occurred|was|has|while|when|during))?",
        r"something went wrong",
        # "requests.exceptions.HTTPError: ...", "KeyError('x')", "(sqlite3.OperationalError) ..."
        r"(?-i:\(?(?:\w+\.)*[A-Za-z_]+(?:Error|Exception))(?:\Z|[:(\n]|\) )",
        r"(?-i:(?:[a-z_]\w*\.)*[A-Z]\w*(?:Refused|Denied|NotFound|Invalid|Timeout|Failed|Failure|Missing|Expired"
        r"|Required"
        r"|Unavailable|Forbidden|DoesNotExist|Exists|Violation|Exceeded|Conflict|Mismatch): )",
        r"(?-i:[a-z_]\w*(?:\.[a-z_]\w*)*\.[A-Z]\w+: )",
        # "Command x returned the following error: ..."
        r"(?:tool |command |the )[\w .'`\"]{0,60}?(?:returned|raised|threw|encountered|resulted in|reported)"
        r" (?:the following |an? |with an? )?(?:error|exception)",
        r"(?:\d+|found \d+|some) validation errors?\b",
        r"(?:mcp|rpc|api|http|client|server) error\b",
        r"(?:\w+ )?(?:syntax|parse|type|value) error\b",
        r"\d+ \(\w{5}\): |near \"[^\n\"]*\": syntax error",
    ),
    _I,
)
_TOOLS = re.compile(
    _any(
        r"\b(?:error|failed|failure|exception|unable)\b[^\n]{0,40}\b(?:tool|function|arguments?|parameters?)\b",
        r"\b(?:tool|function)\b[^\n]{0,60}\b(?:error|failed|failure|not found|not exist|unknown|invalid|exception)\b",
        r"\b(?:unknown|no such|unavailable|invalid|unsupported) (?:tool|function|call)\b",
        r"\bvalidation errors?\b|\bmcp error\b",
        r"\b(?:missing|required|invalid|unexpected)\b[^\n]{0,30}\b(?:arguments?|param(?:eter)?s?|property)\b",
    ),
    _I,
)
"""What only a harness says: it speaks of tools, functions and arguments."""

_CODES = (
    r"DENIED|INVALID|ERROR|FAILED|FAILURE|FOUND|MISSING|FORBIDDEN|EXCEEDED|TIMEOUT|LIMIT|UNAVAILABLE|CONFLICT|EXPIRED"
)
_CODES += r"|UNKNOWN|REJECTED|REFUSED|UNAUTHORIZED|EXISTS|REQUIRED|ARGUMENT|REQUEST"
_LEAD = re.compile(
    r"[^\w'\"]{0,6}"
    + _any(
        _SORRY,
        r"got (?:an )?unexpected\b",
        rf"(?-i:(?:[A-Z0-9]+_)+(?:{_CODES})\b)(?=:| -|\Z)",
        # what could not be done
        r"(?:(?:i|we|the tool|it) )?(?:failed to|unable to|can(?:not|'t| not)(?! wait)|could(?: not|n't)"
        r"|refus(?:ed|ing))\b"
        r"(?! (?-i:(?:[A-Z]\w+ ){2}))",
        r"not (?:found|allowed|permitted|authori[sz]ed|authenticated|enough|supported|implemented|available"
        r"|a valid|logged in)\b",
        r"(?:permission|access|request|operation|command|action)s? (?:was |is |has been )?(?:denied|refused"
        r"|rejected|blocked"
        r"|forbidden|not (?:allowed|permitted)|aborted|failed|cancell?ed)\b(?! for \w+ \w+ was)",
        r"(?:rejected|blocked|denied|cancell?ed|aborted) by\b|aborted\s*\Z",
        r"you (?:do not|don't|must|need to|are not|cannot|can't|have not|haven't|have no|have exceeded|tried"
        r"|may not|aren't)\b",
        r"(?:the )?(?:model|assistant|agent|llm) (?:tried|attempted) to\b",
        # what was wrong with what was given
        r"(?:no such|unrecogni[sz]ed|unsupported|illegal|malformed|insufficient|duplicate) \w+",
        r"invalid\b(?! (?-i:[A-Z]\w+ [A-Z]))",
        r"unauthori[sz]ed\b|forbidden\b(?! (?-i:[A-Z]))",
        r"missing (?:required|argument|param|value|field|input|mandatory|api|credential|file|['`\"])|missing \w+\s*\Z",
        r"unknown (?:\w+:|['`\"<]|(?:tool|function|action|command|method|operation|argument|param|field|option|key"
        r"|id|user"
        r"|city|error|name|resource|type|property)\b)|unknown [a-z]+\s*\Z",
        r"unexpected (?:argument|keyword|param|property|token|end|response|status|input|error|field|value)",
        r"(?:bad|invalid) (?:request|gateway|input|argument|credential)",
        r"expected (?:an? )?\w+,? (?:but )?(?:got|received|found)|please (?:provide|specify|supply|pass|give"
        r"|include)\b",
        r"value out of range|out of range|type mismatch|(?:\w+ )?mismatch\s*\Z|conflict: ",
        r"(?:does not|doesn't|did not) (?:exist|match)|nothing to (?:replace|edit)|already exists\b",
        r"no (?!match|result|data|output|information|content|change|error|issue|problem|failure|new|more|rain"
        r"|event)(?:\w+ )?"
        r"[^\W\d]*[^\Ws\d] (?:\([^)\n]*\) )?(?:was |is |has been )?(?:found|exists?|matches|available|configured"
        r"|registered"
        r"|provided|given|selected|with (?:the )?(?:id|name|that|this)|named|called|for (?:id|key|name)|column"
        r"|left on)",
        r"there is no (?!need|rain|free)\w+ (?:with|named|called|for|matching|at|under)|none of the \w+ (?:could"
        r"|can|exist"
        r"|was|were)",
        r"(?:declined|interrupted|refused|rejected|denied): |no \w+ (?:has|have|with|matches) (?:the |an? )?(?:id"
        r"|name|key)\b",
        r"there(?:'s| is| are) no (?:\w+ )?(?:\w+ (?:called|named)\b|\w+ [\"'`]?(?=[\w-]*\d)[\w-]+)",
        # transport and time
        r"rate[ -]limit(?:ed|\w* (?:exceeded|reached))|too many (?:requests|arguments|param|results|matches"
        r"|redirects)",
        r"(?:api |the )?(?:\w+ )?(?:rate |usage |request )?(?:limit|quota) (?:has been |was |is )?(?:reached"
        r"|exceeded|hit)\b",
        r"time ?d ?out\b|timeout\b(?! (?:set|is|was|of \d+\w* set))|deadline exceeded",
        r"(?:connection|network|socket|host|server) (?:error|refused|reset|closed|timed|aborted|lost|unreachable)",
        r"(?:connect )?(?:enoent|eisdir|eacces|eexist|eperm|enotdir|ebusy|enospc|econn\w+|etimedout)\b|net::err",
        r"internal (?:server )?error|service unavailable|disk full|stale element",
        r"(?:http(?:/[\d.]+)? )?(?:error |status )?(?:code )?[45]\d\d:? (?:client error|server error|not found"
        r"|forbidden"
        r"|unauthori|bad|internal|too many|service|gateway|conflict|payment)|http (?:error )?[45]\d\d\b",
        # what Python says
        r"\w+\(\) (?:missing|got|takes)|division by zero|float division|list index out of|maximum recursion",
        r"'?\w+'? object (?:has no|is not)|name '\w+' is not defined|invalid literal",
    ),
    _I,
)
_STATES = (
    r"(?:invalid|required|a required|missing|full|blocked|disabled|busy|offline|unavailable|unreachable|read-only"
    r"|expired|unknown"
    r"|ambiguous|malformed|(?:beyond|past|after) the end|out of (?:range|stock|bounds)|too (?:large|long|big"
    r"|short|small)|forbidden|denied"
    r"|rejected|refused"
    r"|aborted|terminated|cancelled because|taken|in use|booked|sold out|overloaded|down)(?=[.:;,!)\s-]|\Z)"
)
_NOT_DONE = (
    r"(?:found|exist|available|allowed|permitted|supported|valid|defined|recogni[sz]ed|registered|running|ready"
    r"|online|possible"
    r"|visible|clickable|editable|writable|readable|working|known|present|connected|reachable|authori[sz]ed"
    r"|accessible|open(?:ed)?"
    r"|active|enabled|implemented|installed|configured|unique|cancell?ed|read|writ\w+|process\w+|complet\w+"
    r"|perform\w+|appl\w+"
    r"|execut\w+|creat\w+|updat\w+|delet\w+|modif\w+|parse\w*|load\w*|made|sent|deliver\w*|a (?:recogni[sz]ed"
    r"|known|registered|supported)|reach\w*|resolve\w*"
    r"|respond\w*|a valid"
    r"|an? (?:absolute|relative|integer|number|string|boolean|list|file|directory)|match\w*|appear|empty"
    r"|eligible|one of|belong|have"
    r"|support"
    r"|in (?:the )?(?:list|file)|located|placed|started|saved|retriev\w*|accept\w*)\b"
)
_PREDICATE = re.compile(
    r"(?P<subject>[^\w\n(]{0,4}[A-Za-z][^\n.;!?:,]{0,100}?|[^\w\n(]{0,4}[A-Za-z/]\S{0,100}(?: \S{1,100}){0,2}):? "
    + _any(
        rf"(?:was |is |are |were |could |does |do |did |has |have |can ?|been )?(?:not|never|n't) (?:be |been "
        rf"|have )?{_NOT_DONE}",
        r"(?:doesn't|don't|didn't|isn't|wasn't|couldn't|can't|won't|aren't) (?:exist|match|be|have|support|appear"
        r"|available|found"
        r"|valid|allowed|respond)\b",
        r"(?:cannot|can't|can not) (?:be|read|write|open|delete|process|handle)\b",
        r"did(?: not|n't) (?:occur|answer|respond|apply)\b|(?:has|have) to be\b|(?:is|was|were) expected to be\b"
        r"|escapes\b",
        r"(?:has |have |is |was )?(?:been )?(?:suspended|revoked|deactivated|banned|frozen)(?=[.:;!]|\Z)",
        r"could(?: not|n't) be \w+|isn't (?:there|here|one of|an? |valid|installed|known)|does(?: not"
        r"|n't) look like\b",
        rf"(?:is |are |was |were )(?:already |currently |temporarily )?{_STATES}",
        r"(?:temporarily|currently) (?:unavailable|down|offline|disabled|overloaded|busy|closed)|unavailable\b",
        r"(?:is |are |was |has )?no longer\b|not responding",
        r"must (?:be|not|have|match|contain|include|provide)\b|should be \w+|locked\s*\Z",
        r"(?:has |have |was |were )?(?:been )?(?:rejected|declined|refused|denied|aborted|blocked|forbidden)"
        r"(?=[.:;,!\])]|\s*\Z|\s*\n|\s+(?:due|because|with|to|by|after|on|verification)\b)",
        r"failed(?=\s*(?:[:.!]|\Z|-\s)|\s+(?:due|because|with|to|after \d|verification)\b|\s+(?:in|at|while"
        r"|when) [^\n]{0,60}:(?! ))",
        r"(?:has )?timed out\b|(?:has |have )?expired(?=[.:;!]|\Z|\n)|exists already|(?:already|with that \w+"
        r" already) (?:exists?"
        r"|taken|booked|in use"
        r"|been)\b",
        r"exceeds?\b|(?:was |has )?(?:been )?exceeded\b|(?:limit|quota) (?:was |has been )?(?:reached|hit)\b",
        r"missing\b(?=[.:!\s]*(?:\Z|\n|required|['`\"]))|conflicts? with\b|occurs \d+|appears \d+|needs\b|expects?\b",
        r"returned (?:an? )?(?:error|status (?:code )?[45]\d\d|http [45]\d\d|[45]\d\d|non-?zero)",
        r"requires? (?:an? |the |at least|admin|auth|permission)|has no (?:argument|param|attribute|tool|field"
        r"|property)|takes \d",
    ),
    _I,
)
_NO_SUBJECT = re.compile(
    r"\S+:\d+[:-]|\W*(?:\w+ ){1,4}(?:sent|created|updated|saved|added|deleted|removed|scheduled|booked|moved|set)[.!,]"
    r"|\W*(?:no|nothing|none|never|yes|if|when|what|how|why|who|which|where|there|this (?:page|article"
    r"|document|guide)"
    r"|it|in|on|at|he|she|they|after|before|since|although|because|while|as|last|previous|known|some|many|most|\d+"
    r" (?:of|tests?|checks?)|fixed|fix|found|note|notes|todo|def|class|import|return|for|raise|assert|checked"
    r"|verified|confirmed"
    r"|clicked|created|updated|successfully|success|done|ok|saved|edited|wrote|sent|here|according|#+|successful"
    r"|title|subject"
    r"|ticket|score|tests?|status|marked|removed|deleted|cleared|\w+: (?:status|score))\b",
    _I,
)
_UNSURE = re.compile(
    r"\b(?:how to|what is|means|meaning|explained|is described|tutorial|stack ?overflow|guide|successfully|no errors?"
    r"|without errors?|(?:was|has been) resolved|(?:been|were) fixed|budget|as requested|as asked)\b",
    _I,
)
_BULLET = re.compile(r"\s*[-*•+] |\s*\d+[.)] ")
_RELATIVE = re.compile(r"\b(?:that|which|who|whose|whether|if|when|because|how)\b", _I)
_COUNTED = re.compile(
    r"\W*(?:\w+ ){0,3}(?:errors?|failures?|failed|exceptions?|transactions)(?: \w+){0,2}\W+(?:\d+(?:\.\d+)?%?|none"
    r"|no|n/a)\W*\Z"
    r"|[^\n]*,? (?:failed|errors?): \d+\W*\Z",
    _I,
)
_IN_NAMES = re.compile(r"(?<=[\w/])[./:@?&=-](?=[\w/])|(?<![^\s'\"`])[./](?=\w)")
"""What stands within a path, an address or a name, where it ends no sentence."""
_WORDS = 9


def strength(text: str) -> int:
    """How surely the text is an error sentence: 0 not at all, else ``PLAIN``, ``LED``, ``LABELLED`` or ``TOOLS_OWN``.

    Only its first line, and at most 400 characters of it, is read.
    """
    line = text.lstrip().partition("\n")[0][:400].rstrip()
    if not line or (_COUNTED.match(line) and not re.match(r"(?:server|http) error", line, _I)):
        return 0
    if label := _LABEL.match(line):
        own = TOOLS_OWN if _TOOLS.search(line) else LABELLED
        return PLAIN if own == LABELLED and _UNSURE.search(line[label.end() :]) else own
    if _UNSURE.search(line) or _BULLET.match(line):
        return 0
    found = LED if _LEAD.match(line) else 0
    if not found and not _NO_SUBJECT.match(line):
        said = _PREDICATE.match(_IN_NAMES.sub("_", line))
        short = said is not None and len(said["subject"].split()) <= _WORDS and not _RELATIVE.search(said["subject"])
        found = PLAIN if short else 0
    return TOOLS_OWN if found and _TOOLS.search(line) else found
