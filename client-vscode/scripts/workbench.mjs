// Installs the real workbench that test/workbench runs in: code-server (VS Code's server and workbench, from npm), the
// native modules that it needs, built here, and Chromium. Everything but Chromium goes into a cache of this user, outside
// the repository, and is left alone when it is there. `--json` prints where everything is, for the tests.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

const CODE_SERVER = "4.100.3"; // VS Code 1.100.3
const NODE_MAJOR = "20"; // what this code-server runs on
const CHROMIUM_NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const CHROMIUM_PACKAGES = ["chromium", "fonts-dejavu-core", "fonts-open-sans"];
const HOW_TO_GIVE_UP = "PALACE_WORKBENCH names another cache; `npm run check` runs the tests that need no workbench.";

class Unmet extends Error {}

/** The directory of this code-server, built for this Node: another version of either goes beside it. */
function cacheDirectory() {
  const { PALACE_WORKBENCH, XDG_CACHE_HOME } = process.env;
  const caches = XDG_CACHE_HOME?.startsWith("/") ? XDG_CACHE_HOME : path.join(homedir(), ".cache");
  const base = PALACE_WORKBENCH ? path.resolve(PALACE_WORKBENCH) : path.join(caches, "palace", "workbench");
  return path.join(base, `code-server-${CODE_SERVER}-node-${NODE_MAJOR}-${process.platform}-${process.arch}`);
}

function say(text) {
  process.stderr.write(`==> ${text}\n`);
}

/** Runs a program to its end; its output goes to `log`, whose end is shown where it fails. */
function run(log, program, args, options = {}) {
  const output = openSync(log, "a");
  const { status, error } = spawnSync(program, args, { ...options, stdio: ["ignore", output, output] });
  if (error?.code === "ENOENT") throw new Unmet(`${program} is not installed.`);
  if (status === 0) return;
  const end = readFileSync(log, "utf8").trimEnd().split("\n").slice(-25).join("\n");
  throw new Unmet(`\`${[program, ...args].join(" ")}\` failed; the end of ${log}:\n${end}`);
}

function step(text, work) {
  const begun = performance.now();
  const result = work();
  say(`${text} (${((performance.now() - begun) / 1000).toFixed(1)} s)`);
  return result;
}

function onPath(names) {
  for (const name of names) {
    for (const directory of (process.env.PATH ?? "").split(path.delimiter)) {
      const file = path.join(directory, name);
      if (directory && existsSync(file)) return file;
    }
  }
  return undefined;
}

/** Installs packages of Debian as root, or says the command that does. */
function aptInstall(log, packages, why) {
  if (process.getuid?.() !== 0 || !onPath(["apt-get"])) {
    throw new Unmet(`${why} On Debian or Ubuntu: sudo apt-get install ${packages.join(" ")}`);
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  step(`installed ${packages.join(", ")} with apt-get`, () => {
    run(log, "apt-get", ["update", "-qq"], { env });
    run(log, "apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], { env });
  });
}

function chromium(log) {
  const named = process.env.PALACE_CHROMIUM;
  if (named) return named;
  if (!onPath(CHROMIUM_NAMES)) {
    aptInstall(log, CHROMIUM_PACKAGES, "The workbench's tests need Chromium (or Chrome; PALACE_CHROMIUM names one elsewhere).");
  }
  return onPath(CHROMIUM_NAMES);
}

/** Where the headers of this Node are: the native modules are built against them. */
function headers(node) {
  for (const prefix of ["/usr", path.dirname(path.dirname(node))]) {
    if (existsSync(path.join(prefix, "include", "node", "node.h")) && sameMajor(prefix)) return prefix;
  }
  return undefined;
}

function sameMajor(prefix) {
  const text = readFileSync(path.join(prefix, "include", "node", "node_version.h"), "utf8");
  return /NODE_MAJOR_VERSION (\d+)/.exec(text)?.[1] === NODE_MAJOR;
}

/** A Node of the version that code-server wants, with headers: the one that runs this, else npm's own package of it. */
function nodeFor(directory, log) {
  const isRight = process.versions.node.split(".")[0] === NODE_MAJOR;
  const prefix = isRight ? headers(process.execPath) : undefined;
  if (prefix) return { program: process.execPath, prefix };
  const name = `node-${process.platform}-${process.arch}`;
  const inside = path.join(directory, "node", "node_modules", name);
  step(`installed ${name}@${NODE_MAJOR} from npm: this Node is ${process.version}${isRight ? ", without headers" : ""}`, () => {
    run(log, "npm", ["install", "--no-audit", "--no-fund", "--prefix", path.join(directory, "node"), `${name}@${NODE_MAJOR}`]);
  });
  if (headers(path.join(inside, "bin", "node")) !== inside) {
    throw new Unmet(`No headers of Node ${NODE_MAJOR} are here to build with. On Debian or Ubuntu: sudo apt-get install libnode-dev`);
  }
  return { program: path.join(inside, "bin", "node"), prefix: inside };
}

function needCompiler(log) {
  const wanted = { make: "make", "g++": "g++", python3: "python3" };
  const missing = Object.keys(wanted).filter((name) => !onPath([name]));
  if (missing.length > 0) {
    aptInstall(log, missing.map((name) => wanted[name]), "The native modules of code-server are built with make, g++ and Python.");
  }
}

/** Installs everything into `directory`, which is new. */
function build(directory, log) {
  needCompiler(log);
  const node = nodeFor(directory, log);
  const env = {
    ...process.env,
    PATH: [path.dirname(node.program), process.env.PATH].join(path.delimiter),
    npm_config_nodedir: node.prefix,
    npm_config_jobs: "max",
    npm_config_audit: "false",
    npm_config_fund: "false",
    npm_config_update_notifier: "false",
  };
  const server = path.join(directory, "node_modules", "code-server");
  const inside = path.join(server, "lib", "vscode");
  const npm = (cwd, ...args) => run(log, "npm", args, { cwd, env });
  writeFileSync(path.join(directory, "package.json"), '{ "private": true }\n');
  // The installation scripts would fetch binaries from elsewhere; what is needed of them is built below.
  step(`installed code-server ${CODE_SERVER} from npm`, () => npm(directory, "install", "--ignore-scripts", `code-server@${CODE_SERVER}`));
  step("installed the libraries of its VS Code", () => npm(inside, "install", "--ignore-scripts", "--omit=dev"));
  step("built argon2", () => npm(directory, "rebuild", "argon2"));
  step("built @vscode/spdlog and native-watchdog", () => npm(inside, "rebuild", "@vscode/spdlog", "native-watchdog"));
  rmSync(path.join(inside, "node_modules.asar"), { recursive: true, force: true });
  symlinkSync("node_modules", path.join(inside, "node_modules.asar"));
  return path.relative(directory, node.program).startsWith("..") ? node.program : path.relative(directory, node.program);
}

/** Where everything is; `node` may have gone since, then it is all done anew. */
function installed(directory) {
  const stamp = path.join(directory, "stamp.json");
  if (!existsSync(stamp)) return undefined;
  const node = path.resolve(directory, JSON.parse(readFileSync(stamp, "utf8")).node);
  const entry = path.join(directory, "node_modules", "code-server", "out", "node", "entry.js");
  return existsSync(node) && existsSync(entry) ? { node, entry } : undefined;
}

function install() {
  const directory = cacheDirectory();
  mkdirSync(path.dirname(directory), { recursive: true });
  const log = path.join(path.dirname(directory), "install.log");
  writeFileSync(log, "");
  const browser = chromium(log);
  let found = installed(directory);
  if (!found) {
    say(`installing the workbench into ${directory} (about a minute and a half, 300 MB, once)`);
    const partial = `${directory}.partial`; // renamed when whole: a half-done one is done anew
    for (const old of [partial, directory]) rmSync(old, { recursive: true, force: true });
    mkdirSync(partial);
    const node = build(partial, log);
    writeFileSync(path.join(partial, "stamp.json"), `${JSON.stringify({ codeServer: CODE_SERVER, node })}\n`);
    renameSync(partial, directory);
    found = installed(directory);
  }
  return { ...found, codeServer: CODE_SERVER, chromium: browser };
}

try {
  const all = install();
  if (process.argv.includes("--json")) process.stdout.write(`${JSON.stringify(all)}\n`);
  else say(`the workbench is installed: ${all.entry}, ${all.chromium}`);
} catch (error) {
  if (!(error instanceof Unmet)) throw error;
  process.stderr.write(`The workbench cannot be installed. ${error.message}\n${HOW_TO_GIVE_UP}\n`);
  process.exitCode = 1;
}
