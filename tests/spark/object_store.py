"""An S3 of its own in this process, on loopback, for tests of what goes through pyarrow's file systems.

    from tests.spark.object_store import bucket          # the fixture; its value is s3://bucket

Spark itself needs the jar `hadoop-aws` for S3, which does not come with PySpark; what Spark reads and writes is tested
with `file://`, and that it says what is missing.
"""

import logging
from collections.abc import Iterator

import pytest

NAME = "tidings-tests"
LOOPBACK, ANY_PORT = "127.0.0.1", 0


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    boto3 = pytest.importorskip("boto3", reason="needs moto: pip install 'moto[s3]' flask flask-cors")
    server_module = pytest.importorskip("moto.server", reason="needs moto: pip install 'moto[s3]' flask flask-cors")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = server_module.ThreadedMotoServer(LOOPBACK, ANY_PORT, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        boto3.client("s3").create_bucket(Bucket=NAME)
        yield f"s3://{NAME}"
    finally:
        server.stop()
