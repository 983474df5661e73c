import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";

import { PalaceError } from "../../src/core/errors";
import { packageOf } from "../../src/core/broughtPackage";
import { install, type InstallOptions } from "../../src/core/installing";
import type { Ran, RunOptions } from "../../src/core/processes";

let storage = "";
const DONE: Ran = { code: 0, stdout: "", stderr: "" };

beforeEach(() => {
  storage = mkdtempSync(path.join(tmpdir(), "pal-install-"));
});

afterEach(() => {
  rmSync(storage, { recursive: true, force: true });
});

type Act = (command: readonly string[], options: RunOptions) => Ran | Promise<Ran> | undefined;

/** A machine on which every step works, but for what `act` says; `commands` hears what was run. */
function machine(act: Act = () => undefined, commands: string[] = []): (command: readonly string[], options: RunOptions) => Promise<Ran> {
  return async (command, options) => {
    commands.push(command.slice(1).join(" "));
    const acted = await act(command, options);
    if (acted) return acted;
    const [program = ""] = command;
    if (command.includes("venv")) {
      const bin = path.join(command.at(-1) ?? "", "bin");
      mkdirSync(bin, { recursive: true });
      writeFileSync(path.join(bin, "python"), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0]), { mode: 0o755 });
    }
    if (command.includes("pip")) writeFileSync(path.join(path.dirname(program), "palace-daemon"), `#!${program}\nimport sys\n`, { mode: 0o755 });
    if (command.includes("-c")) return { ...DONE, stdout: JSON.stringify({ executable: program, pythonVersion: "3.12.1", daemonVersion: "0.2.0", hasVenv: true }) };
    return DONE;
  };
}

function options(given: Partial<InstallOptions> = {}): InstallOptions {
  const what = { path: "/ext/dist/palace_daemon-0.2.0-py3-none-any.whl", version: "0.2.0" };
  return { python: "/usr/bin/python3", storage, what, env: {}, onStep: () => undefined, log: () => undefined, run: machine(), ...given };
}

function failing(word: string, stdout: string, stderr = ""): Act {
  return (command) => (command.includes(word) ? { code: 1, stdout, stderr } : undefined);
}

describe("installing", () => {
  test("makes the environment, installs the wheel with its extra, and fetches the model", async () => {
    const commands: string[] = [];
    const steps: string[] = [];
    const installed = await install(options({ run: machine(undefined, commands), onStep: (step) => steps.push(step) }));
    assert.deepEqual(steps, ["venv", "libraries", "model"]);
    assert.match(commands[0] ?? "", /^-m venv /);
    assert.match(commands[1] ?? "", /^-m pip .*install .*palace_daemon-0\.2\.0-py3-none-any\.whl\[mcp\]$/);
    assert.equal(commands.at(-1), "-m palace_daemon model install");
    assert.deepEqual([installed.python.daemonVersion, installed.modelProblem], ["0.2.0", ""]);
    assert.equal(installed.python.executable, path.join(storage, "environment", "bin", "python"));
  });

  test("leaves scripts that name the Python of the place, still to be run, and nothing else", async () => {
    await install(options());
    assert.deepEqual(readdirSync(storage), ["environment"]);
    const script = path.join(storage, "environment", "bin", "palace-daemon");
    assert.equal(readFileSync(script, "utf8"), `#!${storage}/environment/bin/python\nimport sys\n`);
    assert.equal(statSync(script).mode & 0o777, 0o755);
  });

  test("takes the place of an environment that is there only when the new one is whole", async () => {
    const former = path.join(storage, "environment", "bin", "former");
    mkdirSync(path.dirname(former), { recursive: true });
    writeFileSync(former, "");
    await assert.rejects(install(options({ run: machine(failing("pip", "", "ERROR: no")) })));
    assert.deepEqual([existsSync(former), readdirSync(storage)], [true, ["environment"]]);
    await install(options());
    assert.deepEqual([existsSync(former), readdirSync(storage)], [false, ["environment"]]);
  });

  test("that is given up changes nothing", async () => {
    const givenUp = machine((command) => (command.includes("pip") ? Promise.reject(new PalaceError("withdrawn", "cancelled")) : undefined));
    await assert.rejects(install(options({ run: givenUp })), (error) => error instanceof PalaceError && error.kind === "cancelled");
    assert.deepEqual(readdirSync(storage), []);
  });

  test("a fault of the file system is told in words, with what to do", async () => {
    const act: Act = (command) => {
      if (command.includes("-c")) rmSync(path.dirname(path.dirname(command[0] ?? "")), { recursive: true });
      return undefined;
    };
    await assert.rejects(install(options({ run: machine(act) })), (error) => error instanceof PalaceError && error.kind === "install" && error.hint !== "" && error.message.startsWith("the environment could not be put in its place"));
  });

  test("removes what an earlier one left that was ended with its editor", async () => {
    mkdirSync(path.join(storage, "environment.new-999999999-x"));
    mkdirSync(path.join(storage, `environment.new-${process.ppid}-x`));
    await install(options());
    assert.deepEqual(readdirSync(storage).sort(), ["environment", `environment.new-${process.ppid}-x`]);
  });

  test("goes on without the model, and says why it is not there", async () => {
    const words = "palace-daemon: cannot fetch all-minilm: no network";
    const installed = await install(options({ run: machine(failing("model", "", words)) }));
    assert.equal(installed.modelProblem, "cannot fetch all-minilm: no network");
  });

  test("says which library is being fetched", async () => {
    const details: string[] = [];
    const run = machine((command, { onLine }) => {
      if (!command.includes("pip")) return undefined;
      for (const line of ["Collecting numpy<3,>=2.0 (from palace-daemon==0.2.0)", "  Downloading numpy.whl", "Installing collected packages: a, b"]) onLine?.(line);
      return undefined;
    });
    await install(options({ run, onStep: (_step, detail) => details.push(detail) }));
    assert.deepEqual(details.filter(Boolean), ["numpy", "unpacking"]);
  });

  const REASONS: [string, Act, RegExp, RegExp][] = [
    ["the missing module venv, with Debian's package", failing("venv", "The virtual environment was not created successfully because ensurepip is not\navailable. [...]\n    apt install python3.12-venv\n"), /venv is not installed/, /apt install python3\.12-venv/],
    ["a network that is not there", failing("pip", "", "WARNING: Retrying after connection broken by 'NewConnectionError(...): Failed to establish a new connection'\nERROR: No matching distribution found for numpy"), /no network/, /proxy/],
    ["a full disk", failing("pip", "", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"), /no space left/, /MB/],
    ["a Python that is too old", failing("pip", "", "ERROR: Package 'palace-daemon' requires a different Python: 3.9.2 not in '>=3.11'"), /too old/, /3\.11/],
    ["pip's last complaint", failing("pip", "", "ERROR: Could not build wheels for onnx"), /Could not build wheels for onnx/, /logs/],
  ];
  for (const [what, act, message, hint] of REASONS) {
    test(`names ${what}, and keeps the program's words for the log`, async () => {
      const logged: string[] = [];
      const failed = install(options({ run: machine(act), log: (words) => logged.push(words) }));
      await assert.rejects(failed, (error) => error instanceof PalaceError && message.test(error.message) && hint.test(error.hint));
      assert.equal(logged.length, 1);
      assert.deepEqual(readdirSync(storage), []);
    });
  }
});

describe("what is installed", () => {
  test("is the newest wheel that the extension brings", () => {
    mkdirSync(path.join(storage, "dist"));
    for (const version of ["0.9.0", "0.10.0", "0.2.0"]) writeFileSync(path.join(storage, "dist", `palace_daemon-${version}-py3-none-any.whl`), "");
    writeFileSync(path.join(storage, "dist", "other-9.0-py3-none-any.whl"), "");
    assert.deepEqual(packageOf(storage), { path: path.join(storage, "dist", "palace_daemon-0.10.0-py3-none-any.whl"), version: "0.10.0" });
  });

  test("is, in development, the source beside the extension", () => {
    const extension = path.join(storage, "client-vscode");
    mkdirSync(extension);
    assert.equal(packageOf(extension), undefined);
    writeFileSync(path.join(storage, "pyproject.toml"), '[project]\nname = "something-else"\n');
    assert.equal(packageOf(extension), undefined);
    writeFileSync(path.join(storage, "pyproject.toml"), '[project]\nname = "palace-daemon"\n');
    assert.deepEqual(packageOf(extension), { path: storage, version: "" });
  });
});
