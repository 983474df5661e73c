import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";

import { PalaceError } from "../../src/core/errors";
import type { Ran, RunOptions } from "../../src/core/processes";
import { candidates, findInstallers, findPython, type FindOptions, onPath, pythonsOf } from "../../src/core/python";
import { isNewer } from "../../src/core/versions";

let directory = "";
/** What the Python at a path says of itself; those that are not here fail. */
const says = new Map<string, object | string>();
const asked: { command: readonly string[]; options: RunOptions }[] = [];

beforeEach(() => {
  directory = mkdtempSync(path.join(tmpdir(), "pal-python-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
  says.clear();
  asked.length = 0;
});

/** Makes a program that nobody runs, and has it say something. */
function program(name: string, told?: object | string, content = "#!/bin/sh\n"): string {
  const where = path.join(directory, name);
  mkdirSync(path.dirname(where), { recursive: true });
  writeFileSync(where, content);
  chmodSync(where, 0o755);
  if (told !== undefined) says.set(where, told);
  return where;
}

function python(executable: string, daemonVersion: string | null, pythonVersion = "3.12.1", hasVenv = true): object {
  return { executable, pythonVersion, daemonVersion, hasVenv };
}

function run(command: readonly string[], options: RunOptions): Promise<Ran> {
  asked.push({ command, options });
  const told = says.get(command[0] ?? "");
  if (told === undefined) return Promise.resolve({ code: 1, stdout: "", stderr: "Traceback\nImportError: no encodings" });
  const stdout = typeof told === "string" ? told : `${JSON.stringify(told)}\n`;
  return Promise.resolve({ code: 0, stdout, stderr: "" });
}

function options(given: Partial<FindOptions> = {}): FindOptions {
  return { setting: "", storage: path.join(directory, "storage"), interpreter: "", env: { PATH: path.join(directory, "bin"), HOME: directory }, run, ...given };
}

describe("finding a Python with the package", () => {
  test("the private environment comes before the interpreter, that before the command, that before the rest of the PATH", async () => {
    const places = [
      program("storage/environment/bin/python"),
      program("project/bin/python"),
      program("tools/bin/python3"),
      program("bin/python3"),
      program("bin/python"),
    ];
    program("bin/palace-daemon", undefined, `#!${places[2]}\n`);
    const order: string[] = [];
    for (const place of places) says.set(place, python(place, null));
    await findPython(options({ interpreter: places[1] ?? "" }));
    for (const { command } of asked) order.push(command[0] ?? "");
    assert.deepEqual(order, places);
  });

  test("the first that has it is taken, and the others are not run", async () => {
    const first = program("bin/python3", python("/usr/bin/python3", "0.1.0"));
    program("bin/python", python("/usr/bin/python", "0.1.0"));
    const { found } = await findPython(options());
    assert.deepEqual([found?.executable, found?.daemonVersion, found?.origin], ["/usr/bin/python3", "0.1.0", "path"]);
    assert.deepEqual(asked.map(({ command }) => command[0]), [first]);
  });

  test("it is run outside of every workspace, with a limit", async () => {
    program("bin/python3", python("/usr/bin/python3", "0.1.0"));
    await findPython(options());
    assert.equal(asked[0]?.options.cwd, "/");
    assert.equal(asked[0].options.limitMs, 10_000);
  });

  test("where none has it, each says why, and those that could make an environment are named once", async () => {
    program("bin/python3", python("/usr/bin/python3.12", null));
    program("bin/python", python("/usr/bin/python3.12", null));
    program("project/bin/python", python("/project/bin/python", null, "3.9.2"));
    const finding = await findPython(options({ interpreter: path.join(directory, "project/bin/python") }));
    assert.equal(finding.found, undefined);
    assert.equal(finding.rejected.length, 3);
    assert.ok(finding.rejected.every(({ reason }) => reason.includes("has no palace-daemon")));
    assert.deepEqual(finding.installers.map((one) => one.executable), ["/usr/bin/python3.12"]);
  });

  test("one with two names is offered once", async () => {
    const target = program("real/python3.12");
    symlinkSync(target, path.join(directory, "real/python3"));
    program("bin/python3", python(path.join(directory, "real/python3"), null));
    program("bin/python", python(target, null));
    assert.deepEqual((await findPython(options())).installers.map((one) => one.executable), [path.join(directory, "real/python3")]);
  });

  test("one without the module venv cannot install", async () => {
    program("bin/python3", python("/usr/bin/python3", null, "3.12.1", false));
    assert.deepEqual((await findPython(options())).installers, []);
  });

  test("an older package is not taken, and its version is named", async () => {
    program("bin/python3", python("/usr/bin/python3", "0.0.9"));
    const { found, rejected } = await findPython(options());
    assert.equal(found, undefined);
    assert.match(rejected[0]?.reason ?? "", /palace-daemon 0\.0\.9/);
  });

  test("a start-up file that prints does not confuse it, and nonsense is no Python", async () => {
    program("bin/python3", `hello\n${JSON.stringify(python("/usr/bin/python3", "0.1.0"))}\n`);
    assert.equal((await findPython(options())).found?.executable, "/usr/bin/python3");
    says.set(path.join(directory, "bin/python3"), "42\n");
    assert.equal((await findPython(options())).found, undefined);
  });

  test("a search that is given up ends as cancelled", async () => {
    program("bin/python3", python("/usr/bin/python3", null));
    const givenUp = options({ run: () => Promise.reject(new PalaceError("withdrawn", "cancelled")) });
    await assert.rejects(findPython(givenUp), (error) => error instanceof PalaceError && error.kind === "cancelled");
  });
});

describe("the setting", () => {
  test("names a Python", async () => {
    const named = program("mine/python", python("/mine/python", "0.1.0"));
    const { found } = await findPython(options({ setting: named }));
    assert.deepEqual([found?.executable, found?.origin], ["/mine/python", "setting"]);
  });

  test("names the command, whose Python is meant", async () => {
    const beside = program("venv/bin/python", python("/venv/bin/python", "0.1.0"));
    const command = program("venv/bin/palace-daemon", undefined, `#!${beside}\nimport sys\n`);
    assert.equal((await findPython(options({ setting: command }))).found?.executable, "/venv/bin/python");
  });

  test("may begin with a tilde", async () => {
    program("mine/python", python("/mine/python", "0.1.0"));
    assert.equal((await findPython(options({ setting: "~/mine/python" }))).found?.executable, "/mine/python");
  });

  for (const [what, setting] of [["is missing", "/nowhere/python"], ["is relative", "venv/bin/python"]] as const) {
    test(`that ${what} is an error that names it, and nothing takes its place`, async () => {
      program("bin/python3", python("/usr/bin/python3", "0.1.0"));
      await assert.rejects(findPython(options({ setting })), (error) => error instanceof PalaceError && error.kind === "config" && error.message.includes(setting));
    });
  }

  test("that fails does not keep a person from installing with another", async () => {
    program("bin/python3", python("/usr/bin/python3", null));
    const found = await findInstallers(options({ setting: program("mine/python") }));
    assert.deepEqual(found.map((one) => one.executable), ["/usr/bin/python3"]);
  });
});

describe("the Python of a script", () => {
  test("stands in its first line", () => {
    const named = program("a/bin/python3.11");
    assert.deepEqual(pythonsOf(program("bin/palace-daemon", undefined, `#!${named}\r\nimport sys\n`)), [named]);
  });

  test("stands in its second line where the path is long or has spaces", () => {
    const named = program("with space/bin/python");
    const script = `#!/bin/sh\n'''exec' "${named}" "$0" "$@"\n' '''\nimport sys\n`;
    assert.deepEqual(pythonsOf(program("bin/palace-daemon", undefined, script)), [named]);
  });

  test("lies beside what a link leads to, where the script is none of Python", () => {
    const beside = program("tool/bin/python");
    const script = program("tool/bin/palace-daemon", undefined, "#!/usr/bin/env bash\n");
    mkdirSync(path.join(directory, "bin"));
    symlinkSync(script, path.join(directory, "bin/palace-daemon"));
    assert.deepEqual(pythonsOf(path.join(directory, "bin/palace-daemon")), [beside]);
  });

  test("is none where there is none", () => {
    assert.deepEqual(pythonsOf(program("bin/palace-daemon", undefined, "#!/nowhere/python3\n")), []);
  });
});

test("the PATH is searched in its order, without its relative parts", () => {
  const second = program("two/tool");
  writeFileSync(path.join(directory, "tool"), "no program");
  assert.equal(onPath("tool", { PATH: [".", "", directory, path.join(directory, "two")].join(path.delimiter) }), second);
  assert.equal(onPath("tool", {}), "");
});

test("a script that cannot be read is no reason to stop looking", () => {
  const script = path.join(directory, "palace-daemon");
  mkdirSync(script); // even root cannot read a directory as a file
  assert.deepEqual(pythonsOf(script), []);
});

describe("on other systems", () => {
  const platform = process.platform;

  function as(other: NodeJS.Platform): void {
    Object.defineProperty(process, "platform", { value: other });
  }

  afterEach(() => {
    as(platform);
  });

  test("Windows: what only a shell can run is no program", () => {
    program("bin/python3.bat");
    program("bin/python3.cmd");
    as("win32");
    const env = { PATH: path.join(directory, "bin") };
    assert.equal(onPath("python3", env), "");
    const real = program("bin/python3.exe");
    assert.equal(onPath("python3", env), real);
  });

  test("macOS: the stub that asks to install the developer tools is not run", () => {
    as("darwin");
    assert.ok(!candidates(options({ env: { PATH: "/usr/bin", HOME: directory } })).some((one) => one.command[0]?.startsWith("/usr/bin/")));
    const real = program("bin/python3");
    assert.deepEqual(candidates(options({ env: { PATH: `/usr/bin:${directory}/bin`, HOME: directory } })).map((one) => one.command[0]), [real]);
  });
});

test("an interpreter that is no whole path is not looked for on the PATH", () => {
  assert.deepEqual(candidates(options({ interpreter: "python", env: { PATH: "", HOME: directory } })), []);
});

test("versions are compared by their numbers", () => {
  const table: [string, string, boolean][] = [
    ["0.10.0", "0.9.9", true],
    ["0.9.9", "0.10.0", false],
    ["1.0", "1.0.0", false],
    ["1.0.1", "1.0", true],
    ["0.2.0.dev1", "0.1.0", true],
    ["", "0.1.0", false],
    ["0.1.0", "", true],
  ];
  for (const [one, other, expected] of table) assert.equal(isNewer(one, other), expected, `${one} ${other}`);
});
