export type Language = "curl" | "Python" | "TypeScript";
export const LANGUAGES: readonly Language[] = ["curl", "Python", "TypeScript"];

/** A program that sends the request. It names no key: it reads one from the environment. */
export function programFor(
  language: Language,
  body: object,
  headers: Readonly<Record<string, string>>,
  origin: string,
): string {
  const json = JSON.stringify(body, null, 2);
  switch (language) {
    case "curl": {
      const lines = Object.entries(headers).map(([name, value]) => `  -H '${name}: ${value}' \\\n`);
      // Not as an argument, which may have at most 128 kB. No line of JSON is the word that ends the body.
      return `curl ${origin}/v1/responses \\\n  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n  -H 'content-type: application/json' \\\n${lines.join("")}  --data-binary @- <<'BODY'\n${json}\nBODY\n`;
    }
    case "Python": {
      const extra = Object.keys(headers).length > 0 ? `, extra_headers=${pythonLiteral(headers, 0)}` : "";
      return `from openai import OpenAI\n\nclient = OpenAI(base_url="${origin}/v1")\nrequest = ${pythonLiteral(body, 0)}\nresponse = client.responses.create(**request${extra})\nprint(response.output_text)\n`;
    }
    case "TypeScript": {
      const extra = Object.keys(headers).length > 0 ? `, { headers: ${JSON.stringify(headers)} }` : "";
      return `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${origin}/v1" });\nconst response = await client.responses.create(${json}${extra});\nconsole.log(response.output_text);\n`;
    }
  }
}

function pythonLiteral(value: unknown, depth: number): string {
  const indent = "    ".repeat(depth + 1);
  const end = "    ".repeat(depth);
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((one) => `${indent}${pythonLiteral(one, depth + 1)},\n`).join("")}${end}]`;
  }
  if (typeof value === "object") {
    const entries = Object.entries(value).map(
      ([key, one]) => `${indent}${JSON.stringify(key)}: ${pythonLiteral(one, depth + 1)},\n`,
    );
    return entries.length === 0 ? "{}" : `{\n${entries.join("")}${end}}`;
  }
  return JSON.stringify(value);
}
