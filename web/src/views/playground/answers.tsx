import { useState } from "preact/hooks";
import { Action } from "../../components/buttons.tsx";
import { CodeBlock } from "../../components/markdown.tsx";
import { prettyJson } from "../../lib/pretty-json.ts";
import { whyNot } from "../../lib/session.ts";
import type { Item } from "../../lib/types.ts";
import { type Answered, answersOf, waitingIn } from "./answering.ts";
import { type Column, start } from "./state.ts";

/**
 * What a person does with the items that wait: approve or reject calls, and give the outputs of functions. All
 * answers are sent together, because a model that made several calls needs the output of each.
 */
export function Answers({ column, items }: { column: Column; items: readonly Item[] }) {
  const [answered, setAnswered] = useState<Answered>({});
  const waiting = waitingIn(items);
  if (waiting.length === 0) return null;
  const calls = waiting.filter(({ type }) => type !== "mcp_approval_request");
  const undecided = waiting.some(
    ({ type, id = "" }) => type === "mcp_approval_request" && answered[id] === undefined,
  );
  const decide = (id: string, approve: boolean) => {
    const next = { ...answered, [id]: approve };
    setAnswered(next);
    const done = waiting.every(({ id: each = "" }) => next[each] !== undefined);
    if (calls.length === 0 && done) start([column], answersOf(waiting, next));
  };
  const send = () => start([column], answersOf(waiting, answered));
  return (
    <form
      class="stack answers"
      aria-label="Answers"
      onSubmit={(event) => {
        event.preventDefault();
        if (!undecided && whyNot("write") === undefined) send();
      }}
    >
      {waiting.map((item) =>
        item.type === "mcp_approval_request" ? (
          <Approval
            key={item.id}
            item={item}
            decision={answered[item.id ?? ""]}
            onDecide={(approve) => decide(item.id ?? "", approve)}
          />
        ) : (
          <input
            key={item.id}
            class="mono"
            aria-label={`Output of ${item.name}`}
            placeholder={`The output of ${item.name}(${item.arguments ?? item.input ?? ""})`}
            onInput={({ currentTarget: { value } }) => setAnswered({ ...answered, [item.id ?? ""]: value })}
          />
        ),
      )}
      {calls.length > 0 && (
        <div class="row">
          <Action
            kind="primary"
            scope="write"
            off={undecided ? "Approve or reject the calls first." : undefined}
            onClick={send}
          >
            {calls.length === 1 ? "Send output" : `Send ${calls.length} outputs`}
          </Action>
        </div>
      )}
    </form>
  );
}

interface ApprovalProps {
  readonly item: Item;
  readonly decision: boolean | string | undefined;
  readonly onDecide: (approve: boolean) => void;
}

function Approval({ item, decision, onDecide }: ApprovalProps) {
  return (
    <div class="approval">
      <p>
        {item.server_label} asks to run <code>{item.name}</code> with exactly these arguments:
      </p>
      <CodeBlock text={prettyJson(item.arguments ?? "")} language="json" />
      <div class="row">
        <Action kind="primary" scope="write" onClick={() => onDecide(true)}>
          Approve
        </Action>
        <Action kind="danger" scope="write" onClick={() => onDecide(false)}>
          Reject
        </Action>
        {decision !== undefined && (
          <span role="status">{decision === true ? "Approved." : "Rejected."} The other calls wait.</span>
        )}
      </div>
    </div>
  );
}
