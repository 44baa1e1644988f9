"""`python -m geglu_tune.exchange.fetch URL COPY`: bring the local copy of a service's bests up to date.

Prints "changed" if there was something new. The copy is replaced whole, or stays as it is.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from geglu_tune.boundary import web
from geglu_tune.boundary.files import write_whole
from geglu_tune.boundary.printable import printable
from geglu_tune.errors import GegluTuneError
from geglu_tune.exchange.document import MOST_BYTES, from_json
from geglu_tune.store import Store


def fetch(url: str, copy: Path) -> bool:
    """Whether the copy has changed.

    Raises:
        GegluTuneError: the service cannot be reached, or sends what is no export.
    """
    note = copy.with_suffix(".etag")
    etag = None
    with suppress(OSError, UnicodeDecodeError):
        etag = note.read_text("utf-8") if copy.exists() else None
    reply = web.get(f"{url.rstrip('/')}/v1/snapshot", MOST_BYTES, etag=etag)
    if reply.status == 304:
        return False
    contents = from_json(reply.body, url)
    copy.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "copy.db"
        with Store.open(fresh, create=True) as store:
            store.merge(contents, origin=url)
        note.unlink(missing_ok=True)  # an old note beside a new copy would keep it from ever being fetched again
        write_whole(copy, fresh.read_bytes())
    if reply.etag:
        note.write_text(printable(reply.etag)[:200], "utf-8")
    return True


def main() -> int:
    try:
        if fetch(sys.argv[1], Path(sys.argv[2])):
            print("changed")
    except (GegluTuneError, OSError) as error:
        print(printable(str(error)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
