"""Serves the page: files that lie in this package, and nothing else."""

from __future__ import annotations

from importlib import resources

from aiohttp import web

from scaler.edge.errors import EdgeError

POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "manifest-src 'none'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""The Content-Security-Policy of the page: its own files, this server, and no text as code."""

_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_FIRST = "index.html"


class PageIncomplete(EdgeError):
    """The package was built without the page's files."""


class Page:
    """The page's files, read once.

    They hold no data and no secret, so they need no token: the page itself asks for it.
    Raises PageIncomplete.
    """

    def __init__(self) -> None:
        """Read the files of this package's folder `page`."""
        self._files: dict[str, tuple[str, bytes]] = {}
        folder = resources.files("scaler.edge") / "page"
        for file in folder.iterdir() if folder.is_dir() else ():
            kind = _KINDS.get(f".{file.name.rpartition('.')[2]}")
            if kind is not None:
                self._files[file.name] = (kind, file.read_bytes())
        if _FIRST not in self._files:
            raise PageIncomplete("the page's files are missing: install the package anew")

    def add_to(self, app: web.Application) -> None:
        """Add the routes: `/`, and the files below `/page/`."""
        app.router.add_get("/", self._first)
        app.router.add_get("/page/{name}", self._file)

    async def _first(self, _: web.Request) -> web.Response:
        return self._answer(_FIRST)

    async def _file(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._files:
            raise web.HTTPNotFound
        return self._answer(name)

    def _answer(self, name: str) -> web.Response:
        kind, body = self._files[name]
        headers = {"Content-Type": f"{kind}; charset=utf-8", "Content-Security-Policy": POLICY}
        return web.Response(body=body, headers=headers)
