"""The web page and its files, from the package: nothing is fetched from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from tarbox.query.algebra import Entity
from tarbox.query.drawing import draw

STATIC: Final = Path(str(files("tarbox.http") / "static"))
CONTENT_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css",
                        ".svg": "image/svg+xml", ".woff2": "font/woff2"}  # fmt: skip


def page_routes() -> list[BaseRoute]:
    """A route for each file and folder of the page; `/` is its index.

    One route for all would also match the paths of the API, and hide which methods those take. Media types are our
    own, whatever the machine's table says.
    """
    for suffix, media_type in CONTENT_TYPES.items():
        mimetypes.add_type(media_type, suffix)
    served = _Files(directory=STATIC, html=True, check_dir=False)
    names = sorted(path.name + ("/{file:path}" if path.is_dir() else "") for path in STATIC.glob("[!._]*"))
    return [Route(f"/{name}", served, methods=["GET", "HEAD"]) for name in ["", *names]]


class _Files(StaticFiles):
    """Static files that a browser asks for anew when they change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def security_headers(cross_origin: bool) -> dict[bytes, bytes]:
    """The headers of every reply; `cross_origin` where pages of other sites may read replies. Everything comes from
    this server only; the one style sheet inside a page is that of drawn queries, by its hash."""
    found = re.search("<style>(.*?)</style>", draw(Entity("x"), lambda _, name: name), re.DOTALL)
    style = base64.b64encode(hashlib.sha256((found[1] if found else "").encode()).digest()).decode()
    return {
        b"content-security-policy": (
            f"default-src 'none'; script-src 'self'; style-src 'self' 'sha256-{style}'; img-src 'self' data:; "
            "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; "
            "frame-ancestors 'none'"
        ).encode(),
        b"x-content-type-options": b"nosniff",
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"no-referrer",
        b"cross-origin-opener-policy": b"same-origin",
        b"cross-origin-resource-policy": b"cross-origin" if cross_origin else b"same-origin",
        b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
        b"cache-control": b"no-store",
    }
