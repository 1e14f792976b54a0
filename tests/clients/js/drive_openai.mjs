// The official `openai` package for JavaScript.
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { z } from 'zod';
import { run } from './driver.mjs';

const Person = z.object({ name: z.string(), year: z.number().int() });
// A form that a very small model fills in quickly.
const Known = z.object({ name: z.enum(['Ada', 'Charles']), year: z.literal([1791, 1815]) });
const person = zodTextFormat(Person, 'person');
const hello = { role: 'user', content: 'hello' };
const again = { role: 'user', content: 'again' };
const outputs = { write_line: 'written', read_lines: 'one' };

const sdk = (baseURL) => new OpenAI({ baseURL, apiKey: 'none', maxRetries: 0, timeout: 30_000 });

function declare(name, properties) {
  return {
    type: 'function',
    name,
    description: `${name}.`,
    parameters: {
      type: 'object',
      properties: Object.fromEntries(Object.entries(properties).map(([key, type]) => [key, { type }])),
      required: Object.keys(properties),
      additionalProperties: false,
    },
    strict: true,
  };
}

const tools = [declare('write_line', { text: 'string' }), declare('read_lines', {})];

async function text(baseURL) {
  const response = await sdk(baseURL).responses.create({
    model: 'echo', instructions: 'Be brief.', input: 'hello',
  });
  return { text: response.output_text };
}

async function streaming(baseURL) {
  const stream = sdk(baseURL).responses.stream({ model: 'echo', instructions: 'Be brief.', input: 'hello' });
  const deltas = [];
  stream.on('response.output_text.delta', (event) => deltas.push(event.delta));
  return { text: (await stream.finalResponse()).output_text, deltas };
}

const streamed = (client, params) => client.responses.stream(params).finalResponse();

const calling = (stream) => async (baseURL) => {
  const client = sdk(baseURL);
  const called = [];
  const input = [hello];
  for (;;) {
    const params = { model: 'agent', input, tools };
    const response = await (stream ? streamed(client, params) : client.responses.create(params));
    input.push(...response.output);
    const calls = response.output.filter((item) => item.type === 'function_call');
    if (!calls.length) return { text: response.output_text, called };
    for (const call of calls) {
      called.push([call.name, JSON.parse(call.arguments)]);
      input.push({ type: 'function_call_output', call_id: call.call_id, output: outputs[call.name] });
    }
  }
};

async function forced(baseURL) {
  const response = await sdk(baseURL).responses.create({
    model: 'forced',
    input: 'hello',
    tools: [declare('person', { name: 'string', year: 'integer' })],
    tool_choice: 'required',
  });
  const calls = response.output.filter((item) => item.type === 'function_call');
  return { called: calls.map((call) => [call.name, JSON.parse(call.arguments)]) };
}

async function structured(baseURL) {
  const response = await sdk(baseURL).responses.parse({ model: 'json', input: 'Who?', text: { format: person } });
  return { parsed: response.output_parsed };
}

async function structuredStreamed(baseURL) {
  const response = await streamed(sdk(baseURL), { model: 'json', input: 'Who?', text: { format: person } });
  return { parsed: response.output_parsed };
}

// The complete history is sent again.
const twoTurns = (model, params = {}) => async (baseURL) => {
  const client = sdk(baseURL);
  const first = await client.responses.create({ model, input: [hello], ...params });
  const second = await client.responses.create({ model, input: [hello, ...first.output, again], ...params });
  return { text: second.output_text, id: second.id };
};

async function previous(baseURL) {
  const client = sdk(baseURL);
  const first = await client.responses.create({ model: 'transcript', input: 'hello' });
  const second = await client.responses.create({
    model: 'transcript', input: 'again', previous_response_id: first.id,
  });
  return { text: second.output_text, id: second.id };
}

async function conversation(baseURL) {
  const client = sdk(baseURL);
  const made = await client.conversations.create();
  await client.responses.create({ model: 'transcript', input: 'hello', conversation: made.id });
  const second = await client.responses.create({ model: 'transcript', input: 'again', conversation: made.id });
  return { text: second.output_text, id: second.id };
}

async function images(baseURL, { picture }) {
  const content = [
    { type: 'input_text', text: 'What is this?' },
    { type: 'input_image', image_url: picture, detail: 'auto' },
  ];
  const response = await sdk(baseURL).responses.create({ model: 'echo', input: [{ role: 'user', content }] });
  return { text: response.output_text };
}

const failing = (params, { stream = false } = {}) => async (baseURL) => {
  const client = sdk(baseURL);
  const asked = { input: 'hello', ...params };
  try {
    await (stream ? streamed(client, asked) : client.responses.create(asked));
  } catch (error) {
    if (!(error instanceof OpenAI.OpenAIError)) throw error;
    return { error: error.message, status: error.status ?? null };
  }
  return {};
};

async function websocket(baseURL) {
  const socket = new ResponsesWS(sdk(baseURL));
  const send = (input, more = {}) =>
    socket.send({ type: 'response.create', model: 'transcript', input, store: false, ...more });
  try {
    send('hello');
    let turns = 0;
    for await (const event of socket.stream()) {
      if (event.type === 'error') throw event.error;
      if (event.type !== 'message' || event.message.type !== 'response.completed') continue;
      const { response } = event.message;
      turns += 1;
      if (turns === 2) return { text: response.output[0].content[0].text, id: response.id };
      send('again', { previous_response_id: response.id });
    }
    throw new Error('the socket was closed');
  } finally {
    socket.close();
  }
}

async function embedded(baseURL) {
  const client = sdk(baseURL);
  const answer = await streamed(client, {
    model: 'local', input: 'What is the capital of France?', temperature: 0,
  });
  const who = await client.responses.parse({
    model: 'local', input: 'Who was Ada?', text: { format: zodTextFormat(Known, 'known') },
  });
  return { text: answer.output_text, parsed: who.output_parsed };
}

await run({
  text,
  streaming,
  tools: calling(false),
  'tools while streaming': calling(true),
  'a forced tool': forced,
  'structured output': structured,
  'structured output while streaming': structuredStreamed,
  'a second turn': twoTurns('transcript'),
  'a second turn, nothing stored': twoTurns('transcript', { store: false }),
  previous_response_id: previous,
  conversation,
  reasoning: twoTurns('reasoning'),
  'reasoning, nothing stored': twoTurns('reasoning', { store: false, include: ['reasoning.encrypted_content'] }),
  images,
  'unknown model': failing({ model: 'no-such-model' }),
  'bad request': failing({ model: 'echo', temperature: 9 }),
  'upstream refuses': failing({ model: 'refuses' }, { stream: true }),
  'upstream breaks off': failing({ model: 'breaks' }),
  'upstream breaks off while streaming': failing({ model: 'breaks' }, { stream: true }),
  WebSocket: websocket,
  'embedded model': embedded,
});
