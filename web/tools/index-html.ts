/** The only document. It has no inline script and no inline style: the content security policy allows neither. */
export function indexHtml(script: string, style: string, icon: Uint8Array): string {
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>Antiphon</title>
    <link rel="icon" href="data:image/svg+xml;base64,${Buffer.from(icon).toString("base64")}">
    <link rel="stylesheet" href="/assets/${style}">
    <script type="module" src="/assets/${script}"></script>
  </head>
  <body>
    <div id="app"></div>
    <noscript>This page needs JavaScript. Everything it shows is also available over HTTP: see /v1/responses.</noscript>
  </body>
</html>
`;
}
