# feduplink demo in a container: docker build -t feduplink . && docker run --rm -v "$PWD/runs:/work/runs" feduplink
FROM python:3.12-slim
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# PyTorch for the CPU is a tenth of the size of that for GPUs.
RUN pip install --no-cache-dir --constraint constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu .
RUN useradd --create-home worker && install --directory --owner worker /work /work/runs
USER worker
WORKDIR /work
ENTRYPOINT ["feduplink"]
CMD ["demo", "--out", "runs/demo"]
