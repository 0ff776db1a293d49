# storm-harness with all that a run needs, in layers: build the wheel, then install it beside a Java runtime.
# Untried: where this was written there is no container engine.
#
#   docker build -t storm-harness .
#   docker run --rm -it --security-opt seccomp=unconfined -v "$PWD/runs:/data/runs" storm-harness run quick
#
# The servers are kept in a network and process namespace of their own, which Docker's default profile forbids.
FROM python:3.12-slim-bookworm AS wheel
RUN apt-get update && apt-get install -y --no-install-recommends maven openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# Maven fetches the servers' jars
RUN apt-get update && apt-get install -y --no-install-recommends maven openjdk-17-jdk-headless util-linux \
    && rm -rf /var/lib/apt/lists/* && useradd --create-home harness && mkdir /data && chown harness /data
COPY requirements.lock /tmp/requirements.lock
RUN pip install --no-cache-dir --require-hashes -r /tmp/requirements.lock
COPY --from=wheel /wheels/*.whl /tmp/
RUN pip install --no-cache-dir --no-deps /tmp/*.whl && rm /tmp/*.whl /tmp/requirements.lock
USER harness
WORKDIR /data
# the servers' jars and the models' machine code are in the image, not fetched at the first run
RUN harness doctor --install
ENTRYPOINT ["harness"]
CMD ["list"]
