import { readFileSync } from 'node:fs';
import { defineConfig, type Plugin } from 'vite';
import { svelte } from '@sveltejs/vite-plugin-svelte';

// `WEIR_URL=https://node:7400 npm run dev` shows the sources against a daemon that runs.
const target = process.env.WEIR_URL ?? 'http://127.0.0.1:7400';

// What the licences of built-in packages ask to be handed on with them.
const licences: Plugin = {
  name: 'licences',
  generateBundle() {
    const texts = ['svelte/LICENSE.md', 'elkjs/LICENSE.md', 'uplot/LICENSE'];
    const source = texts.map((t) => `${t.split('/')[0]}\n\n${readFileSync(`node_modules/${t}`, 'utf8').trim()}\n`).join('\n\n');
    this.emitFile({ type: 'asset', fileName: 'licenses.txt', source });
  },
};

export default defineConfig({
  plugins: [svelte(), licences],
  build: {
    target: 'es2022',
    // Inlined files would be `data:` addresses, which the content security policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 2000,
  },
  server: {
    proxy: {
      '/v1': {
        target,
        secure: false,
        changeOrigin: true,
        configure: (proxy) => proxy.on('proxyReq', (request) => request.removeHeader('origin')),
      },
    },
  },
});
