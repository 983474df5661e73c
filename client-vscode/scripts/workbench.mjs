// Installs the real workbench that test/workbench runs in: code-server (VS Code's server and workbench, from npm), the
// native modules that it needs, built here, and Chromium. Everything but Chromium goes into a cache of this user, outside
// the repository, and is left alone when it is there. PALACE_VSCODE chooses the version of VS Code, one of VERSIONS.
// `--json` prints where everything is, for the tests.
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

/**
 * By the version of VS Code: the code-server that brings it, the Node that this one runs on, the native modules to build
 * for code-server itself and for its VS Code, and libraries and extensions of it that no scenario needs.
 */
const VERSIONS = {
  "1.139": {
    codeServer: "4.139.1",
    nodeMajor: "24",
    megabytes: 400,
    modules: { server: [], code: ["@vscode/spdlog", "@vscode/native-watchdog"] },
    unneededExtensions: ["copilot", "mermaid-markdown-features"],
    unneededLibraries: [
      "@devcontainers/cli",
      "@github/copilot-sdk",
      "@microsoft/mxc-sdk",
      "@vscode/copilot-api",
      "@vscode/deviceid",
      "@vscode/fs-copyfile",
      "@vscode/ripgrep-universal",
      "@vscode/sandbox-runtime",
      "@vscode/sqlite3",
      "@vscode/windows-process-tree",
      "@vscode/windows-registry",
      "kerberos",
      "node-pty",
      "ssh2",
    ],
  },
  "1.100": {
    codeServer: "4.100.3",
    nodeMajor: "20",
    megabytes: 290,
    modules: { server: ["argon2"], code: ["@vscode/spdlog", "native-watchdog"] },
    unneededExtensions: [],
    unneededLibraries: [], // few megabytes, and its extension host does not start without ripgrep's
  },
};
const DEFAULT_VERSION = "1.139";
const CHROMIUM_NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const CHROMIUM_PACKAGES = ["chromium", "fonts-dejavu-core", "fonts-open-sans"];
const COMPILER = ["make", "g++", "python3"];
const HOW_TO_GIVE_UP = "PALACE_WORKBENCH names another cache; `npm run check` runs the tests that need no workbench.";

class Unmet extends Error {}

function chosen() {
  const name = process.env.PALACE_VSCODE || DEFAULT_VERSION;
  const version = VERSIONS[name];
  if (!version) throw new Unmet(`PALACE_VSCODE is ${name}; the versions that are known are ${Object.keys(VERSIONS).join(" and ")}.`);
  return { name, ...version };
}

/** The directory of this code-server, built for its Node: another version of either goes beside it. */
function cacheDirectory({ codeServer, nodeMajor }) {
  const { PALACE_WORKBENCH, XDG_CACHE_HOME } = process.env;
  const caches = XDG_CACHE_HOME?.startsWith("/") ? XDG_CACHE_HOME : path.join(homedir(), ".cache");
  const base = PALACE_WORKBENCH ? path.resolve(PALACE_WORKBENCH) : path.join(caches, "palace", "workbench");
  return path.join(base, `code-server-${codeServer}-node-${nodeMajor}-${process.platform}-${process.arch}`);
}

function say(text) {
  process.stderr.write(`==> ${text}\n`);
}

/** Runs a program to its end; its output goes to `log` once it ended, and its last lines are shown where it fails. */
async function run(log, program, args, options = {}) {
  const output = [];
  const { status, error } = await new Promise((resolve) => {
    const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
    child.on("error", (failure) => resolve({ error: failure }));
    child.on("close", (code) => resolve({ status: code }));
  });
  const text = Buffer.concat(output).toString("utf8").trimEnd();
  appendFileSync(log, `$ ${[program, ...args].join(" ")}\n${text}\n`);
  if (error?.code === "ENOENT") throw new Unmet(`${program} is not installed.`);
  if (status === 0) return;
  const end = text.split("\n").slice(-25).join("\n");
  throw new Unmet(`\`${[program, ...args].join(" ")}\` failed (${error?.message ?? status}); the end of what it wrote to ${log}:\n${end}`);
}

async function step(text, work) {
  const begun = performance.now();
  const result = await work();
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
async function aptInstall(log, packages, why) {
  if (process.getuid?.() !== 0 || !onPath(["apt-get"])) {
    throw new Unmet(`${why} On Debian or Ubuntu: sudo apt-get install ${packages.join(" ")}`);
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  await step(`installed ${packages.join(", ")} with apt-get`, async () => {
    await run(log, "apt-get", ["update", "-qq"], { env });
    await run(log, "apt-get", ["install", "-y", "-qq", "--no-install-recommends", ...packages], { env });
  });
}

async function chromium(log) {
  const named = process.env.PALACE_CHROMIUM;
  if (named) return named;
  if (!onPath(CHROMIUM_NAMES)) {
    await aptInstall(log, CHROMIUM_PACKAGES, "The workbench's tests need Chromium (or Chrome; PALACE_CHROMIUM names one elsewhere).");
  }
  return onPath(CHROMIUM_NAMES);
}

async function needCompiler(log) {
  const missing = COMPILER.filter((name) => !onPath([name]));
  if (missing.length > 0) await aptInstall(log, missing, "The native modules of code-server are built with make, g++ and Python.");
}

/** Where the headers of this Node are: the native modules are built against them. */
function headers(node, nodeMajor) {
  for (const prefix of ["/usr", path.dirname(path.dirname(node))]) {
    if (existsSync(path.join(prefix, "include", "node", "node.h")) && majorOf(prefix) === nodeMajor) return prefix;
  }
  return undefined;
}

function majorOf(prefix) {
  const text = readFileSync(path.join(prefix, "include", "node", "node_version.h"), "utf8");
  return /NODE_MAJOR_VERSION (\d+)/.exec(text)?.[1];
}

/** A Node of the version that code-server wants, with headers: the one that runs this, else npm's own package of it. */
async function nodeFor(directory, { nodeMajor }, log) {
  const isRight = process.versions.node.split(".")[0] === nodeMajor;
  const prefix = isRight ? headers(process.execPath, nodeMajor) : undefined;
  if (prefix) return { program: process.execPath, prefix };
  const name = `node-${process.platform}-${process.arch}`;
  const inside = path.join(directory, "node", "node_modules", name);
  await step(`installed ${name}@${nodeMajor} from npm: this Node is ${process.version}${isRight ? ", without headers" : ""}`, async () => {
    await run(log, "npm", ["install", "--no-audit", "--no-fund", "--prefix", path.join(directory, "node"), `${name}@${nodeMajor}`]);
  });
  if (headers(path.join(inside, "bin", "node"), nodeMajor) !== inside) {
    throw new Unmet(`No headers of Node ${nodeMajor} are here to build with. On Debian or Ubuntu: sudo apt-get install libnode-dev`);
  }
  return { program: path.join(inside, "bin", "node"), prefix: inside };
}

/** Takes libraries out of a package.json, so that npm does not fetch them. */
function leaveOut(file, names) {
  const manifest = JSON.parse(readFileSync(file, "utf8"));
  for (const name of names) delete manifest.dependencies[name];
  writeFileSync(file, `${JSON.stringify(manifest, undefined, 2)}\n`);
}

/** Installs everything into `directory`, which is new. */
async function build(directory, version, log) {
  const quiet = { ...process.env, npm_config_audit: "false", npm_config_fund: "false", npm_config_update_notifier: "false" };
  const server = path.join(directory, "node_modules", "code-server");
  const inside = path.join(server, "lib", "vscode");
  const npm = (env, cwd, ...args) => run(log, "npm", args, { cwd, env });
  writeFileSync(path.join(directory, "package.json"), '{ "private": true }\n');
  const { codeServer, modules } = version;
  // The installation scripts would fetch binaries from elsewhere; what is needed of them is built below.
  const fetchServer = async () => {
    await step(`installed code-server ${codeServer} from npm`, () => npm(quiet, directory, "install", "--ignore-scripts", `code-server@${codeServer}`));
    leaveOut(path.join(inside, "package.json"), version.unneededLibraries);
    for (const name of version.unneededExtensions) rmSync(path.join(inside, "extensions", name), { recursive: true });
    await step("installed the libraries of its VS Code", () => npm(quiet, inside, "install", "--ignore-scripts", "--omit=dev"));
  };
  const [node] = await Promise.all([nodeFor(directory, version, log), fetchServer()]);
  const env = {
    ...quiet,
    PATH: [path.dirname(node.program), process.env.PATH].join(path.delimiter),
    npm_config_nodedir: node.prefix,
    JOBS: "max",
    // They write logs and check passwords: here it counts how soon they are built.
    CFLAGS: "-O0",
    CXXFLAGS: "-O0",
  };
  const rebuild = async (cwd, names) => {
    if (names.length > 0) await step(`built ${names.join(" and ")}`, () => npm(env, cwd, "rebuild", ...names));
  };
  await rebuild(directory, modules.server);
  await rebuild(inside, modules.code);
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

/** Both at the same time where both are missing, once there is a compiler: one wants the network, the other the processor. */
async function installAnew(directory, version, log) {
  say(`installing the workbench, VS Code ${version.name}, into ${directory} (about a minute and a half, ${version.megabytes} MB, once)`);
  const partial = `${directory}.partial`; // renamed when whole: a half-done one is done anew
  for (const old of [partial, directory]) rmSync(old, { recursive: true, force: true });
  mkdirSync(partial);
  await needCompiler(log);
  const [node, browser] = await Promise.all([build(partial, version, log), chromium(log)]);
  writeFileSync(path.join(partial, "stamp.json"), `${JSON.stringify({ codeServer: version.codeServer, node })}\n`);
  renameSync(partial, directory);
  return browser;
}

async function install() {
  const version = chosen();
  const directory = cacheDirectory(version);
  mkdirSync(path.dirname(directory), { recursive: true });
  const log = path.join(path.dirname(directory), "install.log");
  writeFileSync(log, "");
  const browser = installed(directory) ? await chromium(log) : await installAnew(directory, version, log);
  return { ...installed(directory), vscode: version.name, codeServer: version.codeServer, chromium: browser };
}

try {
  const all = await install();
  if (process.argv.includes("--json")) process.stdout.write(`${JSON.stringify(all)}\n`);
  else say(`the workbench is installed: ${all.entry}, ${all.chromium}`);
} catch (error) {
  if (!(error instanceof Unmet)) throw error;
  process.stderr.write(`The workbench cannot be installed. ${error.message}\n${HOW_TO_GIVE_UP}\n`);
  process.exitCode = 1;
}
