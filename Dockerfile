# elmo on a CPU; serves the shipped model unless another command is given.
#
#   docker build -t elmo .
#   docker run -p 8000:8000 elmo
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
CMD ["elmo", "serve", "--host", "0.0.0.0", "--port", "8000"]
