"""The OpenAPI document is kept, whatever is asked: schemathesis makes up the questions."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from geglu_tune.service.app import create_app
from geglu_tune.store import Store
from geglu_tune.tiling import Tiling
from service.conftest import TOKEN
from store.builders import keep_best

OPERATIONS = [
    ("/v1/tiling", "GET"),
    ("/v1/tilings", "GET"),
    ("/v1/tilings", "POST"),
    ("/v1/trials", "GET"),
    ("/v1/snapshot", "GET"),
    ("/healthz", "GET"),
    ("/metrics", "GET"),
]


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "tunings.db"
    with Store.open(path, create=True) as store:
        keep_best(store, Tiling(8192, 40))
    return schemathesis.openapi.from_asgi("/openapi.json", create_app(path, TOKEN))


def test_everything_is_described(described):
    assert [(one.ok().path, one.ok().method.upper()) for one in described.get_all_operations()] == OPERATIONS


GOOD_AND_BAD = [
    *((*operation, schemathesis.GenerationMode.POSITIVE) for operation in OPERATIONS),
    *((*operation, schemathesis.GenerationMode.NEGATIVE) for operation in OPERATIONS[:4]),  # that take something
]


@pytest.mark.parametrize(("path", "method", "mode"), GOOD_AND_BAD)
def test_every_answer_is_as_described(described, path, method, mode):
    """Good questions and bad: no server error, and the status, type and body that the document promises."""

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=described[path][method].as_strategy(generation_mode=mode))
    def check(case):
        # A schema cannot say that a product has to stay below 2^40, or that places in a list have to be there.
        case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=[positive_data_acceptance])

    check()
