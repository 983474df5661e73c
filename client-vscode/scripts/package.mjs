// Makes palace-recall-VERSION.vsix: checks, bundles, builds the daemon's wheel into dist/, packs, and looks at what was
// packed. Works without a network after `npm ci` here and `make setup` in the repository. The same files give the same
// VSIX: times inside are those of SOURCE_DATE_EPOCH.
//
//   npm run package                 everything
//   npm run package -- --unchecked  without types and lint
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const HERE = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const REPOSITORY = path.dirname(HERE);
const BUNDLE_BYTES_MAX = 450_000;
/** Before the first commit of this project; any fixed time will do. */
const EPOCH = "1767225600";
const ALLOWED = [
  /^\[Content_Types\]\.xml$/,
  /^extension\.vsixmanifest$/,
  /^extension\/package\.json$/,
  /^extension\/readme\.md$/,
  /^extension\/changelog\.md$/,
  /^extension\/LICENSE\.txt$/,
  /^extension\/dist\/extension\.js$/,
  /^extension\/dist\/parts\/[a-zA-Z]+-[A-Z0-9]{8}\.js$/,
  /^extension\/dist\/palace_daemon-[\d.]+[a-z\d.]*-py3-none-any\.whl$/,
  /^extension\/media\/(icon|[a-z-]+-(dark|light))\.png$/,
  /^extension\/media\/view\.svg$/,
];
const NEEDED = ["extension/dist/extension.js", "extension/media/icon.png", "extension/LICENSE.txt", "extension/readme.md", "extension/changelog.md"];

const manifest = JSON.parse(readFileSync(path.join(HERE, "package.json"), "utf8"));
const environment = { ...process.env, SOURCE_DATE_EPOCH: process.env.SOURCE_DATE_EPOCH ?? EPOCH };

function fail(message) {
  console.error(`package: ${message}`);
  process.exit(1);
}

function run(what, program, words, cwd = HERE) {
  console.log(`==> ${what}`);
  const { status, error } = spawnSync(program, words, { cwd, env: environment, stdio: ["ignore", "inherit", "inherit"] });
  if (error) fail(`${what}: ${error.message}`);
  if (status !== 0) fail(`${what} failed`);
}

/** Runs the script of an installed package with this very Node: no shell, and the same on every system. */
function tool(what, script, ...words) {
  run(what, process.execPath, [path.join(HERE, "node_modules", script), ...words]);
}

function buildWheel() {
  const version = /__version__ = "([^"]+)"/.exec(readFileSync(path.join(REPOSITORY, "server/palace_daemon/__init__.py"), "utf8"))?.[1];
  if (version !== manifest.version) fail(`the extension is ${manifest.version} and palace-daemon is ${version}: bring both to one version`);
  const python = path.join(REPOSITORY, ".venv", process.platform === "win32" ? "Scripts/python.exe" : "bin/python");
  if (!existsSync(python)) fail(`there is no ${python}: run \`make setup\` in the repository`);
  run("wheel of the daemon", python, ["-m", "hatchling", "build", "-t", "wheel", "-d", path.join(HERE, "dist")], REPOSITORY);
}

/** The names and sizes of what a zip file holds, from its central directory. */
function entriesOf(file) {
  const data = readFileSync(file);
  const end = data.lastIndexOf(Buffer.from("PK\x05\x06", "latin1"));
  if (end < 0) fail(`${file} is no zip file`);
  const entries = [];
  let at = data.readUInt32LE(end + 16);
  for (let left = data.readUInt16LE(end + 10); left > 0; left -= 1) {
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((offset) => data.readUInt16LE(at + offset));
    entries.push({ name: data.toString("utf8", at + 46, at + 46 + nameBytes), bytes: data.readUInt32LE(at + 24) });
    at += 46 + nameBytes + extraBytes + commentBytes;
  }
  return entries;
}

/** Looks at what was packed; a VSIX with a fault does not stay. */
function checkContents(file) {
  const fault = (message) => {
    rmSync(file);
    fail(message);
  };
  const entries = entriesOf(file);
  const names = entries.map((entry) => entry.name);
  const unwanted = names.filter((name) => !ALLOWED.some((pattern) => pattern.test(name)));
  if (unwanted.length > 0) fault(`these files should not be in ${path.basename(file)}: ${unwanted.join(", ")}`);
  const missing = [...NEEDED, ...bundled.map((name) => `extension/dist/${name.replaceAll("\\", "/")}`)].filter((name) => !names.includes(name));
  if (missing.length > 0) fault(`these files are missing in ${path.basename(file)}: ${missing.join(", ")}`);
  if (names.filter((name) => name.endsWith(".whl")).length !== 1) fault("the VSIX must hold one wheel of the daemon");
  for (const picture of readFileSync(path.join(HERE, "README.md"), "utf8").matchAll(/!\[[^\]]*\]\(([^):]+)\)/g)) {
    // No failure: the pictures are taken of the packaged extension. tests/test_extension.py wants them to be there.
    if (!names.includes(`extension/${picture[1]}`)) console.warn(`package: README.md shows ${picture[1]}, which is not there yet`);
  }
  return entries;
}

const inKilobytes = (bytes) => `${(bytes / 1000).toFixed(1)} kB`;

mkdirSync(path.join(HERE, "dist"), { recursive: true });
for (const old of readdirSync(path.join(HERE, "dist"))) rmSync(path.join(HERE, "dist", old), { recursive: true }); // wheels of other versions
copyFileSync(path.join(REPOSITORY, "LICENSE"), path.join(HERE, "LICENSE"));
if (!process.argv.includes("--unchecked")) {
  tool("types", "typescript/bin/tsc", "--noEmit");
  tool("types of the workbench tests", "typescript/bin/tsc", "--noEmit", "-p", "test/workbench");
  tool("lint", "eslint/bin/eslint.js", ".");
}
run("bundle", process.execPath, ["esbuild.mjs"]);
const bundled = readdirSync(path.join(HERE, "dist"), { recursive: true }).filter((name) => name.endsWith(".js"));
const bundleBytes = bundled.reduce((sum, name) => sum + statSync(path.join(HERE, "dist", name)).size, 0);
if (bundleBytes > BUNDLE_BYTES_MAX) fail(`the bundle has ${inKilobytes(bundleBytes)}, more than ${inKilobytes(BUNDLE_BYTES_MAX)}`);
buildWheel();
const target = `${manifest.name}-${manifest.version}.vsix`;
tool("vsix", "@vscode/vsce/vsce", "package", "--no-dependencies", "--allow-missing-repository", "--no-rewrite-relative-links", "--out", target);
for (const { name, bytes } of checkContents(path.join(HERE, target))) console.log(`  ${inKilobytes(bytes).padStart(10)}  ${name}`);
console.log(`bundle ${inKilobytes(bundleBytes)}, ${target} ${inKilobytes(statSync(path.join(HERE, target)).size)}`);
