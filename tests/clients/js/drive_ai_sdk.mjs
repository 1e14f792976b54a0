// The AI SDK: `ai` with `@ai-sdk/openai`, whose default model speaks the Responses API.
import { createOpenAI } from '@ai-sdk/openai';
import { AISDKError, generateText, isStepCount, Output, streamText, tool } from 'ai';
import { z } from 'zod';
import { run } from './driver.mjs';

const Person = z.object({ name: z.string(), year: z.number().int() });
// A form that a very small model fills in quickly.
const Known = z.object({ name: z.enum(['Ada', 'Charles']), year: z.literal([1791, 1815]) });
const hello = { role: 'user', content: 'hello' };
const again = { role: 'user', content: 'again' };

const openai = (baseURL) => createOpenAI({ baseURL, apiKey: 'none' });
const idOf = (result) => result.finalStep.providerMetadata.openai.responseId;
const options = (more) => ({ providerOptions: { openai: more } });
// The input items that a request carried, by type.
const sent = (result) => result.finalStep.request.body?.input.map((item) => item.type ?? 'message') ?? null;

async function text(baseURL) {
  const { text } = await generateText({
    model: openai(baseURL)('echo'), instructions: 'Be brief.', prompt: 'hello',
  });
  return { text };
}

async function streaming(baseURL) {
  const result = streamText({ model: openai(baseURL)('echo'), instructions: 'Be brief.', prompt: 'hello' });
  const deltas = [];
  for await (const delta of result.textStream) deltas.push(delta);
  return { text: await result.text, deltas };
}

function recording(called) {
  const recorded = (name, output) => (input) => {
    called.push([name, input]);
    return output;
  };
  return {
    write_line: tool({
      description: 'Writes a line.',
      inputSchema: z.object({ text: z.string() }),
      execute: recorded('write_line', 'written'),
    }),
    read_lines: tool({
      description: 'Reads all lines.',
      inputSchema: z.object({}),
      execute: recorded('read_lines', 'one'),
    }),
  };
}

const calling = (ask) => async (baseURL) => {
  const called = [];
  const result = await ask({
    model: openai(baseURL)('agent'), prompt: 'hello', tools: recording(called), stopWhen: isStepCount(5),
  });
  return { text: await result.text, called };
};

async function forced(baseURL) {
  const called = [];
  const person = tool({
    description: 'Notes a person.',
    inputSchema: Person,
    execute: (input) => {
      called.push(['person', input]);
      return 'noted';
    },
  });
  await generateText({
    model: openai(baseURL)('forced'), prompt: 'hello', tools: { person }, toolChoice: 'required',
  });
  return { called };
}

const structured = (ask) => async (baseURL) => {
  const result = await ask({
    model: openai(baseURL)('json'), prompt: 'Who?', output: Output.object({ schema: Person }),
  });
  return { parsed: await result.output };
};

const twoTurns = (model, more = {}) => async (baseURL) => {
  const asked = { model: openai(baseURL)(model), ...options(more), include: { requestBody: true } };
  const first = await generateText({ ...asked, messages: [hello] });
  const second = await generateText({ ...asked, messages: [hello, ...first.response.messages, again] });
  return { text: second.text, id: idOf(second), sent: sent(second) };
};

async function previous(baseURL) {
  const model = openai(baseURL)('transcript');
  const first = await generateText({ model, prompt: 'hello' });
  const second = await generateText({ model, prompt: 'again', ...options({ previousResponseId: idOf(first) }) });
  return { text: second.text, id: idOf(second) };
}

async function conversation(baseURL) {
  // It cannot create a conversation, so this is requested directly.
  const made = await fetch(`${baseURL}/conversations`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}',
  });
  const { id } = await made.json();
  const model = openai(baseURL)('transcript');
  await generateText({ model, prompt: 'hello', ...options({ conversation: id }) });
  const second = await generateText({ model, prompt: 'again', ...options({ conversation: id }) });
  return { text: second.text, id: idOf(second) };
}

async function images(baseURL, { picture }) {
  const content = [
    { type: 'text', text: 'What is this?' },
    { type: 'file', mediaType: 'image/png', data: picture.split('base64,')[1] },
  ];
  const { text } = await generateText({ model: openai(baseURL)('echo'), messages: [{ role: 'user', content }] });
  return { text };
}

const failing = (model, more = {}, { stream = false } = {}) => async (baseURL) => {
  const asked = { model: openai(baseURL)(model), prompt: 'hello', maxRetries: 0, ...more };
  try {
    if (!stream) {
      await generateText(asked);
      return {};
    }
    for await (const part of streamText({ ...asked, onError: () => {} }).fullStream) {
      if (part.type === 'error') throw part.error;
    }
  } catch (error) {
    if (!AISDKError.isInstance(error)) throw error;
    return { error: error.message, status: error.statusCode ?? null };
  }
  return {};
};

async function embedded(baseURL) {
  const model = openai(baseURL)('local');
  const answer = streamText({ model, prompt: 'What is the capital of France?', temperature: 0 });
  const text = await answer.text;
  const who = await generateText({ model, prompt: 'Who was Ada?', output: Output.object({ schema: Known }) });
  return { text, parsed: who.output };
}

await run({
  text,
  streaming,
  tools: calling(generateText),
  'tools while streaming': calling(streamText),
  'a forced tool': forced,
  'structured output': structured(generateText),
  'structured output while streaming': structured(streamText),
  'a second turn': twoTurns('transcript'),
  'a second turn, nothing stored': twoTurns('transcript', { store: false }),
  previous_response_id: previous,
  conversation,
  reasoning: twoTurns('reasoning'),
  'reasoning, nothing stored': twoTurns('reasoning', { store: false, include: ['reasoning.encrypted_content'] }),
  images,
  'unknown model': failing('no-such-model'),
  'bad request': failing('echo', { temperature: 9 }),
  'upstream refuses': failing('refuses', {}, { stream: true }),
  'upstream breaks off': failing('breaks'),
  'upstream breaks off while streaming': failing('breaks', {}, { stream: true }),
  'embedded model': embedded,
});
