import pytest

from naiad.protocol.http.guard import category_of
from naiad.protocol.restricted import Category


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("/v2", Category.METADATA),
        ("/v2/health/live", Category.HEALTH),
        ("/v2/health/ready", Category.HEALTH),
        ("/v2/models/m", Category.METADATA),
        ("/v2/models/m/versions/1", Category.METADATA),
        ("/v2/models/m/ready", Category.HEALTH),
        ("/v2/models/m/versions/1/ready", Category.HEALTH),
        ("/v2/models/m/config", Category.MODEL_CONFIG),
        ("/v2/models/m/versions/1/config", Category.MODEL_CONFIG),
        ("/v2/models/stats", Category.STATISTICS),
        ("/v2/models/m/stats", Category.STATISTICS),
        ("/v2/models/m/infer", Category.INFERENCE),
        ("/v2/models/m/versions/1/infer", Category.INFERENCE),
        ("/v2/models/m/generate", Category.INFERENCE),
        ("/v2/models/m/generate_stream", Category.INFERENCE),
        ("/v2/models/m/trace/setting", Category.TRACE),
        ("/v2/trace/setting", Category.TRACE),
        ("/v2/logging", Category.LOGGING),
        ("/v2/repository/index", Category.MODEL_REPOSITORY),
        ("/v2/repository/r/models/m/load", Category.MODEL_REPOSITORY),
        ("/v2/systemsharedmemory/status", Category.SHARED_MEMORY),
        ("/v2/cudasharedmemory/region/r/register", Category.SHARED_MEMORY),
        ("/docs", None),
        ("/openapi.json", None),
        ("/", None),
    ],
)
def test_every_path_is_of_tritons_category(path: str, category: Category | None) -> None:
    assert category_of(path) is category
