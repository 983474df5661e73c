import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, mock, test } from "node:test";

import type * as vscode from "vscode";

import { api, command as define, Disposable, editor, settled, Uri } from "./support/fakeVscode";

import { PalaceError } from "../../src/core/errors";
import type { Palace, State } from "../../src/core/palace";
import * as places from "../../src/core/places";
import { programEnvironment, registerDaemon, startDaemon, type StartedPalace } from "../../src/ui/daemon";
import { installationEnded, registerInstallation } from "../../src/ui/installDaemon";
import type { Parts } from "../../src/ui/parts";
import { interpreter } from "../../src/ui/pythonExtension";
import type { Settings } from "../../src/ui/settings";

const MISSING: State = { kind: "missing", reason: "no Python with the package was found", hint: "install it" };
const FAILED: State = { kind: "failed", reason: "the daemon ended five times in three minutes", hint: "look at the logs" };

let directory = "";
let settings: Settings;
let known: Map<string, unknown>;
let logged: string[];
let shownLogs = 0;
let extension: unknown;
let disposables: { dispose(): unknown }[] = [];

/** What these modules ask of the editor and other tests do not. */
Object.assign(api.window, {
  withProgress: (_options: unknown, task: (progress: unknown, token: unknown) => unknown) =>
    Promise.resolve(task({ report: () => undefined }, { onCancellationRequested: () => ({ dispose: () => undefined }) })),
});
Object.assign(api.workspace, { isTrusted: true });
Object.assign(api.extensions, { getExtension: (): unknown => extension });

beforeEach(() => {
  editor.reset();
  directory = mkdtempSync(path.join(tmpdir(), "pal-ui-"));
  settings = {
    python: "",
    dataDirectory: path.join(directory, "data"),
    startDaemon: true,
    recall: { scope: "all", limit: 20, delayMs: 120 },
    statusBar: true,
    sessionsLimit: 200,
  };
  known = new Map();
  logged = [];
  shownLogs = 0;
  extension = undefined;
  Object.assign(api.workspace, { isTrusted: true });
  process.env.XDG_STATE_HOME = path.join(directory, "state");
  process.env.XDG_RUNTIME_DIR = directory;
});

afterEach(() => {
  for (const one of disposables) one.dispose();
  disposables = [];
  rmSync(directory, { recursive: true, force: true });
});

const log = {
  info: (text: string) => logged.push(text),
  warn: (text: string) => logged.push(text),
  error: (text: string) => logged.push(text),
  show: () => (shownLogs += 1),
} as unknown as vscode.LogOutputChannel;

function context(): vscode.ExtensionContext {
  return {
    globalStorageUri: Uri.file(path.join(directory, "storage")),
    extensionPath: path.join(directory, "extension"),
    extension: { packageJSON: { version: "0.1.0" } },
    globalState: { get: (key: string) => known.get(key), update: (key: string, value: unknown) => Promise.resolve(known.set(key, value)) },
  } as unknown as vscode.ExtensionContext;
}

/** A palace whose state a test sets. */
class Stage implements Palace {
  state: State = { kind: "connecting" };
  restarts = 0;
  onRestart: () => Promise<void> = () => Promise.resolve();
  readonly #listeners = new Set<(state: State) => void>();

  be(state: State): void {
    this.state = state;
    for (const listener of this.#listeners) listener(state);
  }
  request(): Promise<never> {
    return Promise.reject(new PalaceError("nothing is asked here", "internal"));
  }
  onDidChangeState(listener: (state: State) => void): { dispose(): void } {
    this.#listeners.add(listener);
    return { dispose: () => this.#listeners.delete(listener) };
  }
  on(): { dispose(): void } {
    return { dispose: () => undefined };
  }
  restart(): Promise<void> {
    this.restarts += 1;
    return this.onRestart();
  }
}

function registered(): Stage {
  const palace = new Stage();
  const parts: Parts = { palace, log, settings: () => settings, context: context(), commandLine: () => Promise.resolve([]), command: define };
  disposables.push(Disposable.from(registerDaemon(parts), registerInstallation(parts)));
  return palace;
}

/** On the same machine, with commands of its own. */
function anotherWindow(): Stage {
  editor.commands.clear();
  return registered();
}

async function command(name: string): Promise<void> {
  await editor.commands.get(name)?.();
  await settled();
}

describe("what a person is told", () => {
  test("a failure is told once, with what to do, however often it comes", async () => {
    const palace = registered();
    palace.be(FAILED);
    palace.be({ kind: "connecting" });
    palace.be(FAILED);
    await settled();
    assert.equal(editor.messages.length, 1);
    assert.equal(editor.messages[0]?.text, "The daemon ended five times in three minutes. Look at the logs.");
    assert.deepEqual(editor.messages[0].buttons, ["Restart Daemon", "Show Logs"]);
  });

  test("of the windows that meet the same failure one tells, and where a person looks at none, a moment later", async (context) => {
    mock.timers.enable({ apis: ["setTimeout"] });
    context.after(() => {
      mock.timers.reset();
    });
    const [behind, inFront] = [registered(), anotherWindow()];
    const failed = async (window: Stage, reason: string): Promise<number> => {
      editor.isFocused = window === inFront;
      window.be({ ...FAILED, reason });
      await settled();
      return editor.messages.length;
    };
    const later = async (): Promise<number> => {
      mock.timers.tick(1_000);
      await settled();
      return editor.messages.length;
    };
    assert.equal(await failed(behind, "it crashed"), 0);
    assert.equal(await failed(inFront, "it crashed"), 1);
    assert.equal(await later(), 1);
    assert.equal(await failed(behind, "palace.db is damaged"), 1);
    assert.equal(await later(), 2);
    assert.equal(await failed(behind, "the disk is full"), 2);
    behind.be({ kind: "ready", version: "0.1.0", dataDirectory: "/d" }); // somebody made room meanwhile
    assert.equal(await later(), 2);
  });

  test("another failure is another message", async () => {
    const palace = registered();
    palace.be(FAILED);
    palace.be({ ...FAILED, reason: "palace.db is damaged" });
    await settled();
    assert.equal(editor.messages.length, 2);
  });

  test("a failure that a person's restart meets again is told again, once", async () => {
    const palace = registered();
    palace.be(FAILED);
    palace.onRestart = () => {
      palace.be({ kind: "starting" });
      palace.be(FAILED);
      return Promise.reject(new PalaceError(FAILED.reason, "notRunning"));
    };
    await command("palace.restartDaemon");
    assert.equal(editor.messages.length, 2);
  });

  test("a restart that fails in another way is told, too", async () => {
    const palace = registered();
    palace.be({ kind: "ready", version: "0.1.0", dataDirectory: "/d" });
    palace.onRestart = () => Promise.reject(new PalaceError("no such thing", "internal"));
    await command("palace.restartDaemon");
    assert.deepEqual(editor.messages.map((one) => one.text), ["No such thing."]);
  });

  test("a restart that a change of the settings overtook is not told as done", async () => {
    const palace = registered();
    palace.be({ kind: "connecting" });
    await command("palace.restartDaemon");
    assert.deepEqual(editor.statusMessages, []);
    palace.be({ kind: "ready", version: "0.1.0", dataDirectory: "/data" });
    await command("palace.restartDaemon");
    assert.equal(editor.statusMessages.length, 1);
  });

  test("that the daemon is missing is told once for all windows, and offers to install it", async () => {
    editor.answers.push("Install…");
    const palace = registered();
    palace.be(MISSING);
    await settled();
    assert.deepEqual(editor.messages[0]?.buttons, ["Install…", "Choose Python", "Show Logs"]);
    assert.ok(editor.messages[1]?.text.includes("packaged without the daemon"), "the command was run");
    disposables.pop()?.dispose();
    registered().be(MISSING);
    await settled();
    assert.equal(editor.messages.length, 2);
  });

  test("a setting that names a wrong Python leads to that setting", async () => {
    editor.answers.push("Choose Python");
    registered().be({ kind: "failed", reason: "the setting palace.python names /x", hint: "choose another Python" });
    await settled();
    assert.deepEqual(editor.messages[0]?.buttons, ["Choose Python", "Install…", "Show Logs"]);
    assert.deepEqual(editor.ran, [{ command: "workbench.action.openSettings", given: ["palace.python"] }]);
  });

  test("that somebody stopped the daemon, or that it comes back, is no message", async () => {
    const palace = registered();
    for (const state of [{ kind: "waiting", retryInMs: 250, reason: "r" }, { kind: "off", reason: "stopped" }, { kind: "ready", version: "0.1.0", dataDirectory: "/d" }] as State[]) palace.be(state);
    await settled();
    assert.deepEqual(editor.messages, []);
  });

  test("a newer daemon that the extension brings is offered once, where the old one is in the extension's own environment", async () => {
    mkdirSync(path.join(directory, "extension", "dist"), { recursive: true });
    writeFileSync(path.join(directory, "extension", "dist", "palace_daemon-0.2.0-py3-none-any.whl"), "");
    const palace = registered();
    const ready: State = { kind: "ready", version: "0.1.0", dataDirectory: "/d" };
    palace.be(ready);
    await settled();
    assert.equal(editor.messages.length, 0);
    mkdirSync(path.join(directory, "storage", "environment"), { recursive: true });
    palace.be({ ...ready, version: "0.2.0" });
    assert.equal(editor.messages.length, 0);
    palace.be(ready);
    palace.be(ready);
    await settled();
    const told = editor.messages.map(({ text, buttons }) => [text.includes("0.2.0"), ...buttons]);
    assert.deepEqual(told, [[true, "Upgrade", "Not Now"]]);
  });
});

describe("the logs", () => {
  test("are the extension's alone where the daemon has none", async () => {
    registered();
    await command("palace.showLogs");
    assert.equal(shownLogs, 1);
  });

  test("are one of two to choose from where there are two", async () => {
    const file = places.logFile(settings.dataDirectory);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, "");
    registered();
    editor.answers.push("$(file) Daemon");
    await command("palace.showLogs");
    assert.equal((editor.shown[0]?.target as Uri).fsPath, file);
    editor.answers.push("$(output) Extension");
    await command("palace.showLogs");
    assert.equal(shownLogs, 1);
    await command("palace.showLogs");
    assert.deepEqual([editor.shown.length, shownLogs], [1, 1]);
  });
});

describe("installing", () => {
  test("ends with the window, with all that it started, and leaves nothing", async () => {
    const [bin, path_] = [path.join(directory, "bin"), process.env.PATH];
    const told = JSON.stringify({ executable: path.join(bin, "python3"), pythonVersion: "3.12.1", daemonVersion: null, hasVenv: true });
    mkdirSync(bin);
    // Answers who asks what it is; asked for an environment it begins one, and goes on for longer than any test.
    const script = `#!/bin/sh\nif [ "$1" = -c ]; then echo '${told}'; exit; fi\nfor place; do :; done\n/bin/mkdir -p "$place"; echo $$ > "${directory}/pid"; exec /bin/sleep 600\n`;
    writeFileSync(path.join(bin, "python3"), script, { mode: 0o755 });
    mkdirSync(path.join(directory, "extension", "dist"), { recursive: true });
    writeFileSync(path.join(directory, "extension", "dist", "palace_daemon-0.1.0-py3-none-any.whl"), "");
    process.env.PATH = bin;
    try {
      registered();
      const installing = command("palace.installDaemon");
      while (!existsSync(path.join(directory, "pid")) || !readFileSync(path.join(directory, "pid"), "utf8")) await settled();
      const pid = Number(readFileSync(path.join(directory, "pid"), "utf8"));
      const ended = installationEnded(); // as `deactivate`, which the editor calls first
      for (const one of disposables.splice(0)) one.dispose();
      await ended;
      assert.throws(() => process.kill(pid, 0));
      assert.deepEqual(readdirSync(path.join(directory, "storage")), []);
      await installing;
      assert.deepEqual(editor.messages, []);
    } finally {
      process.env.PATH = path_;
    }
  });
});

describe("the daemon in the editor", () => {
  function started(): StartedPalace {
    const palace = startDaemon(context(), log, () => settings);
    disposables.push(palace);
    return palace;
  }

  function becomes(palace: Palace, kind: State["kind"]): Promise<State> {
    return new Promise((resolve) => {
      const listening = palace.onDidChangeState((state) => {
        if (state.kind !== kind) return;
        listening.dispose();
        resolve(state);
      });
    });
  }

  test("nothing is done before it begins, then the state is told to the editor and the log", async () => {
    settings = { ...settings, startDaemon: false };
    const palace = started();
    editor.configurationChanged.fire({ affectsConfiguration: () => true });
    await settled();
    assert.equal(editor.context.get("palace.state"), "connecting");
    const off = becomes(palace, "off");
    palace.begin();
    await off;
    assert.equal(editor.context.get("palace.state"), "off");
    assert.ok(logged.some((line) => line.startsWith("state off")));
  });

  test("a change of the settings that lead to it applies at once, and no other does anything", async () => {
    settings = { ...settings, startDaemon: false };
    const palace = started();
    const off = becomes(palace, "off");
    palace.begin();
    await off;
    const states: string[] = [];
    palace.onDidChangeState((state) => states.push(state.kind));
    editor.configurationChanged.fire({ affectsConfiguration: (name) => name === "palace.statusBar" });
    await settled();
    assert.deepEqual(states, []);
    const failed = becomes(palace, "failed");
    settings = { ...settings, startDaemon: true, python: "/no/such/python" };
    editor.configurationChanged.fire({ affectsConfiguration: (name) => name === "palace.python" });
    const state = await failed;
    assert.ok(state.kind === "failed" && state.reason.includes("/no/such/python"), JSON.stringify(state));
  });

  test("its command line names the Python and the data directory, and is refused in words without one", async () => {
    const python = path.join(directory, "python");
    const told = JSON.stringify({ executable: "/venv/bin/python", pythonVersion: "3.12.1", daemonVersion: "0.1.0", hasVenv: true });
    writeFileSync(python, `#!/bin/sh\necho '${told}'\n`, { mode: 0o755 });
    settings = { ...settings, python };
    assert.deepEqual(await started().commandLine(), ["/venv/bin/python", "-m", "palace_daemon", "--data-dir", settings.dataDirectory]);
    settings = { ...settings, python: "/no/such/python" };
    await assert.rejects(started().commandLine(), (error) => error instanceof PalaceError && error.kind === "notRunning" && error.message.includes("/no/such/python"));
  });

  test("that a folder is trusted now is a reason to look again, where nothing was found", async () => {
    settings = { ...settings, startDaemon: false };
    const palace = started();
    palace.begin();
    await becomes(palace, "off");
    const states: string[] = [];
    palace.onDidChangeState((state) => states.push(state.kind));
    editor.trustGranted.fire();
    await settled();
    assert.deepEqual(states, [], "only its interpreter can come into it");

    const path_ = process.env.PATH;
    process.env.PATH = path.join(directory, "bin");
    try {
      settings = { ...settings, startDaemon: true };
      const missing = becomes(palace, "missing");
      editor.configurationChanged.fire({ affectsConfiguration: (name) => name === "palace.startDaemon" });
      await missing;
      const again = becomes(palace, "missing");
      states.length = 0;
      editor.trustGranted.fire();
      await again;
      assert.deepEqual(states, ["connecting", "starting", "missing"]);
    } finally {
      process.env.PATH = path_;
    }
  });

  test("a data directory that is no whole path is refused: it would be another in each window", async () => {
    settings = { ...settings, dataDirectory: "memory" };
    const palace = started();
    const failed = becomes(palace, "failed");
    palace.begin();
    const state = await failed;
    assert.ok(state.kind === "failed" && state.reason.includes("palace.dataDirectory") && state.hint !== "", JSON.stringify(state));
  });

  test("its command line does not fail because a start was given up that looked for the same Python", async () => {
    const python = path.join(directory, "python");
    const told = JSON.stringify({ executable: "/venv/bin/python", pythonVersion: "3.12.1", daemonVersion: "0.1.0", hasVenv: true });
    // The first one hangs, the next answers.
    writeFileSync(python, `#!/bin/sh\nif [ -e "$0.asked" ]; then echo '${told}'; else : > "$0.asked"; exec sleep 30; fi\n`, { mode: 0o755 });
    settings = { ...settings, python };
    const palace = started();
    const starting = becomes(palace, "starting");
    palace.begin();
    await starting;
    const asked = palace.commandLine();
    while (!existsSync(`${python}.asked`)) await settled();
    settings = { ...settings, startDaemon: false };
    const off = becomes(palace, "off");
    palace.begin();
    assert.equal((await asked)[0], "/venv/bin/python");
    await off;
  });

  test("its command line alone does not wake the Python extension where another Python will do", async () => {
    let wakes = 0;
    extension = {
      isActive: false,
      activate: () => {
        wakes += 1;
        return Promise.resolve({});
      },
    };
    const [bin, path_] = [path.join(directory, "bin"), process.env.PATH];
    const told = JSON.stringify({ executable: "/tools/bin/python", pythonVersion: "3.12.1", daemonVersion: "0.1.0", hasVenv: true });
    mkdirSync(bin);
    writeFileSync(path.join(bin, "python3"), `#!/bin/sh\necho '${told}'\n`, { mode: 0o755 });
    process.env.PATH = bin;
    try {
      assert.equal((await started().commandLine())[0], "/tools/bin/python");
      assert.equal(wakes, 0);
      rmSync(path.join(bin, "python3"));
      await assert.rejects(started().commandLine());
      assert.equal(wakes, 1);
    } finally {
      process.env.PATH = path_;
    }
  });

  test("programs are not given the editor's own variables", () => {
    process.env.VSCODE_IPC_HOOK = process.env.ELECTRON_RUN_AS_NODE = "1";
    const env = programEnvironment();
    Reflect.deleteProperty(process.env, "VSCODE_IPC_HOOK");
    Reflect.deleteProperty(process.env, "ELECTRON_RUN_AS_NODE");
    assert.deepEqual([env.VSCODE_IPC_HOOK, env.ELECTRON_RUN_AS_NODE, env.PATH], [undefined, undefined, process.env.PATH]);
  });
});

describe("the interpreter of the Python extension", () => {
  const environments = {
    getActiveEnvironmentPath: () => ({ path: "/project/.venv" }),
    resolveEnvironment: () => Promise.resolve({ executable: { uri: Uri.file("/project/.venv/bin/python") } }),
  };

  test("is asked for, and that extension woken for it", async () => {
    extension = { isActive: false, activate: () => Promise.resolve({ environments }) };
    assert.equal(await interpreter(), "/project/.venv/bin/python");
    extension = { isActive: true, exports: { environments } };
    assert.equal(await interpreter(), "/project/.venv/bin/python");
  });

  test("is none where it is not installed, has another API, or fails", async () => {
    assert.equal(await interpreter(), "");
    for (const exports of [undefined, {}, { environments: {} }, { environments: { ...environments, resolveEnvironment: () => Promise.reject(new Error("no")) } }]) {
      extension = { isActive: true, exports };
      assert.equal(await interpreter(), "");
    }
  });

  test("is none where that extension does not come to an end with it", async () => {
    extension = { isActive: false, activate: () => new Promise(() => undefined) };
    assert.equal(await interpreter({ limitMs: 10 }), "");
  });

  test("is none where it is no whole path: a name alone would be looked for on the PATH", async () => {
    extension = { isActive: true, exports: { environments: { getActiveEnvironmentPath: () => ({ path: "python" }) } } };
    assert.equal(await interpreter(), "");
  });

  test("is none in a window that is not trusted: it may lie in the folder", async () => {
    extension = { isActive: true, exports: { environments } };
    Object.assign(api.workspace, { isTrusted: false });
    assert.equal(await interpreter(), "");
  });
});
