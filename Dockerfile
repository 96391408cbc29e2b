# elmo on a CPU; serves the shipped model unless another command is given.
#
#   docker build -t elmo .
#   docker run -p 8000:8000 elmo                      # prints a link with the token that it made
#   docker run -p 8000:8000 -e ELMO_SERVE_TOKEN=… elmo  # a token of 16 characters or more
#   docker run -v "$PWD:/work" elmo elmo embed texts.txt --out vectors.npz
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir build hatchling \
    && python -m build --wheel --no-isolation --outdir /wheels .

FROM python:3.12-slim
ENV PYTHONUNBUFFERED=1 ELMO_CACHE=/work/.cache
COPY --from=build /wheels /wheels
# The CPU build of torch: without the index, pip would fetch gigabytes of CUDA.
RUN pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
        "$(ls /wheels/*.whl)[official,parquet,serve,zstd]" \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 elmo \
    && mkdir /work && chown elmo /work
USER elmo
WORKDIR /work
EXPOSE 8000
HEALTHCHECK --start-period=30s CMD python -c \
    "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health')"
# A server that other machines can reach needs a token: the one given, or a new one.
CMD ["sh", "-c", "ELMO_SERVE_TOKEN=${ELMO_SERVE_TOKEN:-$(python -c 'import secrets; print(secrets.token_urlsafe())')} exec elmo serve --host 0.0.0.0 --port 8000"]
