import assert from "node:assert/strict";
import test from "node:test";

import { matchesIn, plainLine, shortened, snippet, stem } from "../../src/core/snippet";

const found = (text: string, ...terms: string[]) => matchesIn(text, terms).map((one) => text.slice(one.start, one.end));

test("words match in any case, with or without accents, in other inflections", () => {
  assert.deepEqual(found("The Queues moved; a RÉSUMÉ was moving.", "queue", "resume", "move"), ["Queues", "moved", "RÉSUMÉ", "moving"]);
});

test("a word inside another word does not match", () => {
  assert.deepEqual(found("import portable transport", "port"), []);
});

test("parts of names in camelCase, snake_case and kebab-case match alone", () => {
  assert.deepEqual(found("getUserProfile user_profile user-profile HTTPServer", "profile", "server"), ["Profile", "profile", "profile", "Server"]);
});

test("file names, options and words of scripts without spaces match as they stand", () => {
  assert.deepEqual(found("set in tiles.toml with --no-fold; 東京タワーへ", "tiles.toml", "--no-fold", "東京"), ["tiles.toml", "--no-fold", "東京"]);
});

test("words that stand everywhere are marked only where nothing else matched", () => {
  assert.deepEqual(found("which port does the tile server use", "which", "does", "the", "port"), ["port"]);
  assert.deepEqual(found("what was the what", "what", "the"), ["what", "the", "what"]);
});

test("a stem is what the forms of a word share", () => {
  for (const forms of [["query", "queries"], ["move", "moves", "moved", "moving"], ["class", "classes"], ["index", "indexes", "indexing"], ["run", "runs"]]) {
    assert.equal(new Set(forms.map(stem)).size, 1, forms.join(", "));
  }
});

test("the passage is where most different words stand together, cut at the ends of words", () => {
  const filler = "nothing of note was said here for quite a while ".repeat(6);
  const text = `${filler}redis is nice. ${filler}we moved the queue out of redis because it lost jobs. ${filler}`;
  const shown = snippet(text, ["redis", "queue", "jobs"], 90);
  assert.match(shown, /^….*the «queue» out of «redis» because it lost «jobs».*…$/);
  assert(shown.replace(/[«»…]/g, "").length <= 90);
  assert(text.includes(shown.replace(/[«»]/g, "").slice(1, -1)), "cut inside a word");
});

test("a short text is shown whole, a long one without matches from its beginning", () => {
  assert.equal(snippet("all of it", ["none"], 90), "all of it");
  assert.equal(snippet("one two three four five", [], 12), "one two…");
});

test("a text without spaces is cut all the same, and never inside a character", () => {
  for (const most of [20, 21, 22]) {
    const shown = snippet("🙂".repeat(40), ["x"], most);
    assert(shown.length <= most + 1);
    assert.doesNotMatch(shown, /[\uD800-\uDBFF](?![\uDC00-\uDFFF])/);
  }
});

test("thousands of matches cost no thousands of windows", () => {
  const text = "redis ".repeat(20_000);
  assert.match(snippet(text, ["redis"], 60), /^«redis»/);
});

test("shortening ends at a word", () => {
  assert.equal(shortened("Why did we move the queue out of Redis?", 24), "Why did we move the…");
  assert.equal(shortened("short", 24), "short");
});

test("what Markdown adds is left out of a line, what code needs stays", () => {
  const cases: [string, string][] = [
    ["## Heading\n\ntext", "Heading text"],
    ["- [x] done\n* also", "done also"],
    ["```ts\nconst a = 1;\n```", "const a = 1;"],
    ["**bold** and *thin* and `code`", "bold and thin and code"],
    ["[words](https://example.org/a) ![picture](x.png)", "words picture"],
    ["| a | b |\n|---|:-:|\n| 1 | 2 |", "| a | b | | 1 | 2 |"],
    ["a <b>x</b> <img src='http://example.org/p.png'> c", "a x c"],
    ["2 * 3 * 4 and snake_case_name and a < b > c", "2 * 3 * 4 and snake_case_name and a < b > c"],
    ["__init__.py", "__init__.py"],
  ];
  for (const [text, plain] of cases) assert.equal(plainLine(text), plain);
});
