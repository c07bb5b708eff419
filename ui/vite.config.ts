import { defineConfig, loadEnv } from "vite";

export default defineConfig(({ mode }) => {
  /** The address of the server during development: `npm run dev` serves the page and passes calls of the API on to it. */
  const target = loadEnv(mode, ".", "STATEWRIGHT_").STATEWRIGHT_URL ?? "http://127.0.0.1:8123";
  const toServer = { target, changeOrigin: true, headers: { origin: target } };
  return {
    base: "/ui/",
    build: {
      outDir: "../src/statewright/server/page/built",
      emptyOutDir: true,
      assetsInlineLimit: 0, // the Content-Security-Policy allows files of our own only
      modulePreload: { polyfill: false },
      target: ["chrome123", "firefox120", "safari17.5"],
      cssTarget: ["chrome123", "firefox120", "safari17.5"], // they know light-dark()
    },
    server: { proxy: { "/api": toServer, "/openapi.json": toServer, "/docs": toServer } },
  };
});
