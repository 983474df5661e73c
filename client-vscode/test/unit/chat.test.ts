import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { EventEmitter, settled } from "./support/fakeVscode";
import { CancellationError, type LanguageModelToolResult, McpStdioServerDefinition, newer } from "./support/fakeNewerVscode";

import { PalaceError } from "../../src/core/errors";
import type { State } from "../../src/core/palace";
import type { Run } from "../../src/core/processes";
import { registerChat } from "../../src/ui/chat";
import { chatTool } from "../../src/ui/chatTool";
import { McpOffer } from "../../src/ui/mcpOffer";
import type { Parts } from "../../src/ui/parts";

const READY: State = { kind: "ready", version: "0.1.0", dataDirectory: "/srv/palace" };
const LINE = ["/opt/python", "-m", "palace_daemon", "--data-dir", "/srv/palace"];

function token(): { isCancellationRequested: boolean; onCancellationRequested: EventEmitter<void>["event"]; cancel: () => void; emitter: EventEmitter<void> } {
  const emitter = new EventEmitter<void>();
  return {
    isCancellationRequested: false,
    onCancellationRequested: emitter.event,
    emitter,
    cancel: () => {
      emitter.fire();
    },
  };
}

/** The editor's side with a daemon whose state a test sets and whose requests it answers. */
function made(request: (signal: AbortSignal) => Promise<unknown> = () => Promise.reject(new PalaceError("asked", "internal"))) {
  const states = new EventEmitter<State>();
  const palace = {
    state: { kind: "connecting" } as State,
    request: (_method: string, _params: unknown, options: { signal: AbortSignal }) => request(options.signal),
    onDidChangeState: (listener: (state: State) => void) => states.event(listener),
  };
  const lines = { current: LINE as readonly string[] | undefined };
  const logged: string[] = [];
  const parts = {
    palace,
    log: { debug: (text: string) => logged.push(text) },
    commandLine: () => (lines.current ? Promise.resolve(lines.current) : Promise.reject(new PalaceError("none", "notRunning"))),
  } as unknown as Parts;
  const become = async (state: State): Promise<void> => {
    palace.state = state;
    states.fire(state);
    await settled();
  };
  return { parts, become, states, lines, logged };
}

/** Looks for the MCP SDK; `code` 0 says that it is there. */
function looking(code: { current: number }): { run: Run; ran: { command: readonly string[]; cwd: string }[] } {
  const ran: { command: readonly string[]; cwd: string }[] = [];
  return {
    ran,
    run: (command, { cwd }) => {
      ran.push({ command, cwd });
      return Promise.resolve({ code: code.current, stdout: "", stderr: "" });
    },
  };
}

/** Registers both with what answers them, which is loaded only when it is asked; `asked` counts that. */
function registered(parts: Parts, run?: Run) {
  const asked = { tool: 0, servers: 0 };
  let offer: McpOffer | undefined;
  const ending = registerChat(parts.log, {
    tool: () => Promise.resolve(((asked.tool += 1), chatTool(parts))),
    servers: () => {
      asked.servers += 1;
      offer ??= new McpOffer(parts, McpStdioServerDefinition as never, run);
      return Promise.resolve(offer);
    },
  });
  return { asked, ending, endOffer: () => offer?.dispose() };
}

beforeEach(() => {
  newer.isProposal = false;
});

test("the tool answers a chat with text, and says what it does meanwhile", async () => {
  const { parts } = made();
  const { asked, ending } = registered(parts);
  const tool = newer.tools.get("palace_recall");
  assert.ok(tool);
  assert.equal(asked.tool, 0);
  assert.deepEqual(await tool.prepareInvocation({ input: { query: "q" } }), { invocationMessage: "Searching earlier sessions" });
  const result = (await tool.invoke({ input: {} }, token())) as LanguageModelToolResult;
  assert.match(result.content[0]?.value ?? "", /query must say what you want to know/);
  ending.dispose();
  assert.equal(newer.tools.size, 0);
  assert.equal(newer.providers.size, 0);
});

test("a chat that is stopped withdraws the question, and nobody listens to it any more", async () => {
  const { parts } = made(
    (signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => {
          reject(new PalaceError("the request was withdrawn", "cancelled"));
        });
      }),
  );
  const { ending } = registered(parts);
  const stopped = token();
  const asked = newer.tools.get("palace_recall")?.invoke({ input: { query: "q" } }, stopped);
  await settled();
  stopped.cancel();
  await assert.rejects(asked ?? Promise.resolve(), CancellationError);
  assert.equal(stopped.emitter.listenerCount, 0);
  ending.dispose();
});

test("a version in which both are proposals goes on without them", () => {
  newer.isProposal = true;
  const { parts, states, logged } = made();
  const { asked, ending } = registered(parts);
  ending.dispose();
  assert.deepEqual(asked, { tool: 0, servers: 0 });
  assert.equal(logged.length, 2);
  assert.match(logged[0] ?? "", /has no language model tools \(CANNOT use API proposal\)/);
  assert.equal(states.listenerCount, 0);
});

test("a change of the MCP server reaches the editor by the name that was registered", async () => {
  const { parts, become, states } = made();
  const { ending, endOffer } = registered(parts, looking({ current: 0 }).run);
  const provider = newer.providers.get("palace.mcp");
  assert.ok(provider);
  let changes = 0;
  provider.onDidChangeMcpServerDefinitions(() => (changes += 1));
  assert.deepEqual(await provider.provideMcpServerDefinitions(), []);
  await become(READY);
  assert.equal(changes, 1);
  const [server] = await provider.provideMcpServerDefinitions();
  assert.ok(server);
  assert.equal((await provider.resolveMcpServerDefinition(server))?.command, "/opt/python");
  endOffer();
  ending.dispose();
  assert.equal(states.listenerCount, 0);
});

test("the MCP server is offered once the daemon is ready, with the SDK and the command line of the daemon", async () => {
  const { run, ran } = looking({ current: 0 });
  const { parts, become, states } = made();
  const offer = new McpOffer(parts, McpStdioServerDefinition as never, run);
  let changes = 0;
  offer.onDidChangeMcpServerDefinitions(() => (changes += 1));
  assert.deepEqual(await offer.provideMcpServerDefinitions(), []);
  await become({ kind: "starting" });
  assert.equal(changes, 0);
  await become(READY);
  assert.equal(changes, 1);
  const [server] = await offer.provideMcpServerDefinitions();
  assert.equal(server?.command, "/opt/python");
  assert.deepEqual(server.args, ["-m", "palace_daemon", "--data-dir", "/srv/palace", "mcp"]);
  assert.deepEqual([server.label, server.env, server.version], ["Palace", {}, "0.1.0"]);
  assert.equal((server.cwd as unknown as { path: string }).path, "/");
  assert.deepEqual(ran[0]?.command.slice(0, 2), ["/opt/python", "-c"]);
  assert.equal(ran[0].cwd, "/");
  await become(READY);
  assert.equal(changes, 1, "nothing new is no change");
  offer.dispose();
  assert.equal(states.listenerCount, 0);
});

test("without the SDK there is no MCP server, and it appears when the SDK does", async () => {
  const code = { current: 1 };
  const { parts, become, logged } = made();
  const offer = new McpOffer(parts, McpStdioServerDefinition as never, looking(code).run);
  await become(READY);
  assert.deepEqual(await offer.provideMcpServerDefinitions(), []);
  assert.match(logged.join(), /no MCP SDK/);
  code.current = 0;
  await become(READY);
  assert.equal((await offer.provideMcpServerDefinitions()).length, 1);
  offer.dispose();
});

test("a server is started with the program as it is then, or not at all", async () => {
  const { parts, become, lines } = made();
  const offer = new McpOffer(parts, McpStdioServerDefinition as never, looking({ current: 0 }).run);
  await become(READY);
  const [server] = await offer.provideMcpServerDefinitions();
  assert.ok(server);
  lines.current = ["/other/python", "-m", "palace_daemon"];
  assert.equal((await offer.resolveMcpServerDefinition(server))?.command, "/other/python");
  lines.current = undefined;
  assert.equal(await offer.resolveMcpServerDefinition(server), undefined);
  offer.dispose();
});
