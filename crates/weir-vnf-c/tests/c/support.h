// What the programs of the tests share: they print their ports and end by SIGTERM.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weir/vnf.h"

static inline void on_sigterm(int number) {
  (void)number;
  stopEventLoop();
}

static inline int server(int protocol) {
  int id = createServer(NULL, "127.0.0.1", 0, protocol);
  if (id <= 0) {
    fprintf(stderr, "createServer: %s\n", vnfErrorText(id));
    exit(1);
  }
  printf("%d\n", vnfServerPort(id));
  return id;
}

static inline int run(void) {
  signal(SIGTERM, on_sigterm);
  fflush(stdout);
  int error = startEventLoop();
  if (error != 0) {
    fprintf(stderr, "startEventLoop: %s\n", vnfErrorText(error));
  }
  return error != 0;
}
