// A load balancer for TCP: gives each connection to the next replica of those that an orchestrator says there are.
// Usage: balancer PORT PORT-OF-REPLICAS PORT-OF-ORCHESTRATOR
#include <stdlib.h>
#include <string.h>
#include "weir/vnf.h"

enum { ENOUGH = 1 << 20, REPLICAS = 256, ADDRESS = 48 };

struct pair {
  int client, replica;
};

static int replica_port;

// Each core has a list of its own.
static _Thread_local char replicas[REPLICAS][ADDRESS];
static _Thread_local int count, turn;

static int other(const struct pair *pair, int connection) {
  return connection == pair->client ? pair->replica : pair->client;
}

// Passes data on, and holds up where it comes from if the other side is slower.
static void pass(int from, void *request, char *packet, size_t length, int error) {
  (void)error;
  if (request == NULL) {
    closeConn(from);
    return;
  }
  int to = other(request, from);
  sendData(to, packet, length);
  if (vnfQueued(to) > ENOUGH) {
    vnfPause(from, 1);
  }
}

static void sent(int connection, void *request, char *packet, size_t length, int error) {
  (void)packet, (void)length, (void)error;
  if (request != NULL) {
    vnfPause(other(request, connection), 0);
  }
}

// What ends one side ends the other, but for a client that has no more to say, and waits for an answer.
static void end(int connection, void *request, char *packet, size_t length, int error) {
  (void)packet, (void)length;
  struct pair *pair = (struct pair *)request;
  if (pair != NULL && (error != VNF_PEER_CLOSED || connection == pair->replica)) {
    int client = pair->client, replica = pair->replica;
    closeConn(client);
    closeConn(replica);
  }
}

static void give(int client, void *request, char *packet, size_t length, int error) {
  (void)request, (void)packet, (void)length, (void)error;
  int replica = count == 0 ? -1 : createClient(replicas[++turn % count], replica_port, TCP);
  if (replica < 0) {
    closeConn(client);
    return;
  }
  struct pair *pair = (struct pair *)allocReqObj(client, 1);
  *pair = (struct pair){client, replica};
  linkReqObj(replica, pair);
  registerCallback(replica, READ, pass);
  registerCallback(replica, SENT, sent);
  registerCallback(replica, ERROR, end);
}

static void notice(int task, const char *name, const char *address, int reason) {
  (void)name, (void)reason;
  for (int i = 0; i < count; i++) {
    if (strcmp(replicas[i], address) == 0) {
      memmove(replicas[i], replicas[--count], ADDRESS);
    }
  }
  if (task == ADD && count < REPLICAS && strlen(address) < ADDRESS) {
    strcpy(replicas[count++], address);
  }
}

// While the orchestrator is away, its last word holds.
static void ignore(int connection, void *request, char *packet, size_t length, int error) {
  (void)connection, (void)request, (void)packet, (void)length, (void)error;
}

int main(int argc, char *argv[]) {
  if (argc != 4) {
    return 2;
  }
  replica_port = atoi(argv[2]);
  int sizes[] = {sizeof(struct pair)};
  initReqPool(sizes, 1);
  int server = createServer("", "127.0.0.1", atoi(argv[1]), TCP);
  registerCallback(server, ACCEPT, give);
  registerCallback(server, READ, pass);
  registerCallback(server, SENT, sent);
  registerCallback(server, ERROR, end);
  registerCallback(0, ERROR, ignore);
  registerforNotification("127.0.0.1", atoi(argv[3]), notice);
  return startEventLoop();
}
