// The loop of a client's program: each line of JSON requests a scenario, and a line of JSON returns its result.
import { createInterface } from 'node:readline';

export async function run(acts) {
  console.log = console.error; // only results go to the standard output
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    let answer;
    try {
      answer = { result: await acts[asked.scenario](asked.base_url, asked) };
    } catch (error) {
      answer = { raised: String(error?.stack ?? error) };
    }
    process.stdout.write(JSON.stringify(answer) + '\n');
  }
}
