import shutil

import pytest

import farboxes


@pytest.fixture(scope="module")
def net():
    found = farboxes.make()
    yield found
    found.close()
    shutil.rmtree(found.folder, ignore_errors=True)
