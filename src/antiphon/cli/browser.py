"""Opens the page of a server in the browser."""

from antiphon.cli.terminal import output


def open_page(base_url: str) -> None:
    """Open the page of this server, and print its address for machines without a browser."""
    import webbrowser  # noqa: PLC0415 -- only `antiphon open` needs it

    url = base_url.removesuffix("v1")
    text = f"Opened {url} in the browser." if webbrowser.open(url) else f"Open {url} in a browser."
    output().print(text, markup=False, highlight=False, soft_wrap=True)
