import tseslint from "typescript-eslint";

const ONLY_CORE = "src/core runs without VS Code, in plain Node: what needs the editor belongs in src/ui.";

export default tseslint.config(
  { ignores: ["dist/", "node_modules/", "out/", "*.mjs", "scripts/*.mjs"] },
  ...tseslint.configs.strictTypeChecked,
  ...tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      eqeqeq: "error",
      "no-console": "error",
      "max-lines": ["error", 500],
      "max-lines-per-function": ["error", { max: 60, skipComments: true, skipBlankLines: true }],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "error",
    },
  },
  {
    files: ["src/core/**"],
    rules: {
      "no-restricted-imports": ["error", { paths: [{ name: "vscode", message: ONLY_CORE }], patterns: [{ group: ["**/ui/**"], message: ONLY_CORE }] }],
    },
  },
  { files: ["src/core/protocol.ts"], rules: { "max-lines": "off" } }, // generated
  {
    files: ["test/**"],
    rules: {
      // node:test returns a promise from each test(), which the runner awaits.
      "@typescript-eslint/no-floating-promises": "off",
      "max-lines-per-function": "off",
      "no-console": "off",
    },
  },
);
