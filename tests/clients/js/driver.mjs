// The loop of a client's program: a line of JSON asks for a scenario, a line of JSON says what came of it.
import { createInterface } from 'node:readline';

export async function run(acts) {
  console.log = console.error; // results alone go to the standard output
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
