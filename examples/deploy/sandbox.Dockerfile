# The image of sandboxes as pods: programs that commands need, and no Python package that could hold a task's answer.
#   docker build --file sandbox.Dockerfile --tag registry.example.com/etude-sandbox:1 .
#   docker push registry.example.com/etude-sandbox:1
# Then set ETUDE_KUBERNETES_IMAGE to that name. Where Snapshots run on the /usr/bin/python3 of the machine that made
# them, BASE must have the same Python. A BASE that has bash, git and python3 is built without network.
ARG BASE=debian:bookworm-slim

FROM ${BASE}
USER 0:0
RUN for program in bash git python3; do command -v "$program" || missing=yes; done; \
    [ -z "$missing" ] || { apt-get update && apt-get install --yes --no-install-recommends bash git python3; }; \
    rm -rf /var/lib/apt/lists/* && chmod 700 /root
RUN rm -rf /usr/lib*/python*/site-packages /usr/lib*/python*/dist-packages /usr/lib*/python*/ensurepip/_bundled \
    /usr/local/lib*/python*/site-packages /usr/local/lib*/python*/dist-packages \
    /usr/local/lib*/python*/ensurepip/_bundled /usr/share/python-wheels; \
    find /usr /opt -depth \( -name '*.dist-info' -o -name '*.egg-info' -o -name third_party \
    -o -name node_modules \) \
    -exec rm -rf {} + ; find / -xdev -type f -perm /6000 -exec chmod a-s {} + ; \
    mkdir -p /workspace && python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))'
