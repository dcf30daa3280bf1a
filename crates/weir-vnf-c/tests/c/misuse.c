// Calls the library wrongly, and prints what it says.
#include <time.h>
#include "support.h"

static char *gone, *ended;
static void *freed;
static int closed;

#define SAY(call) printf("%s: %s\n", #call, vnfErrorText(call))
#define SAY_NULL(call)                                                       \
  do {                                                                       \
    const char *text = (call) == NULL ? "NULL" : "?";                        \
    printf("%s: %s: %s\n", #call, text, vnfErrorText(vnfLastError()));       \
  } while (0)

static void nothing(int connection, void *request, char *packet, size_t length, int error) {
  (void)connection, (void)request, (void)packet, (void)length, (void)error;
}

// The first message.
static void one(int connection, char *packet) {
  char *buffer = getPktBuf(connection);
  SAY(sendData(connection, buffer, VNF_BUFFER_SIZE + 1));
  memcpy(buffer, "sent\n", 5);
  SAY(sendData(connection, buffer, 5));
  gone = buffer;
  SAY(sendData(connection, gone, 5));
  SAY_NULL(setPktDNE(gone));
  SAY(unsetPktDNE(gone));
  SAY(sendData(connection, NULL, 5));
  SAY(sendData(connection, (char *)&closed, 4));
  SAY(unsetPktDNE(packet));
  SAY_NULL(allocReqObj(connection, 0));
  SAY_NULL(allocReqObj(connection, 3));
  SAY(freeReqObj(connection));
  SAY(linkReqObj(connection, &closed));
  char *state = (char *)allocReqObj(connection, 2);
  memset(state, 1, 1000);
  SAY(linkReqObj(connection, state));
  packet = setPktDNE(packet);
  SAY_NULL(setPktDNE(packet));
  SAY(unsetPktDNE(packet));
  SAY(unsetPktDNE(packet));
  SAY(freeReqObj(connection));
  SAY(freeReqObj(connection));
  SAY(linkReqObj(connection, state));
  freed = state;
  SAY(registerCallback(connection, START, nothing));
  SAY(registerCallback(connection, 77, nothing));
  SAY(registerCallback(1, READ, nothing));
  SAY(createServer("", "127.0.0.1", 0, TCP));
  SAY(createClient("localhost", 80, TCP));
  SAY(createClient("127.0.0.1", 65536, TCP));
  SAY(createClient(NULL, 80, TCP));
  SAY(createClient("127.0.0.1", 80, 99));
  SAY(setData(connection, "t", "k", 1, NULL, 3, LOCAL, NULL));
  SAY(setData(connection, "t", "k", 1, "v", 1, 99, NULL));
  SAY(getData(connection, "t", "k", 1, LOCAL, NULL));
  SAY(setKeyDNE("t", "k", 1));
  SAY(unsetKeyDNE("t", "k", 1));
  SAY(setData(12345678, "t", "k", 1, "v", 1, LOCAL, NULL));
  SAY(startEventLoop());
  SAY(initReqPool(&closed, 1));
  ended = getPktBuf(connection); // Neither sent nor kept: it ends with this callback.
}

// The second message.
static void two(int connection) {
  SAY(sendData(connection, ended, 5));
  SAY(linkReqObj(connection, freed));
  struct timespec second = {1, 0};
  nanosleep(&second, NULL);
}

// The third message: the peer gets an answer and the end.
static void three(int connection, char *packet) {
  allocReqObj(connection, 1);
  setPktDNE(packet); // Never given back.
  SAY(closeConn(connection));
  SAY(closeConn(connection));
  SAY(sendData(connection, getPktBuf(connection), 1));
  SAY(registerCallback(connection, READ, nothing));
  SAY_NULL(getPktBuf(connection));
  SAY_NULL(setPktDNE(packet));
  closed = connection;
}

static void handle(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)length, (void)error;
  switch (packet[0]) {
    case '1': one(connection, packet); break;
    case '2': two(connection); break;
    case '3': three(connection, packet); break;
  }
  fflush(stdout);
}

static void failed(int connection, void *request, char *packet, size_t length, int error) {
  (void)request;
  printf("ERROR: connection %s, packet %.*s, %zu: %s\n", connection == 0 ? "none" : "known", packet ? 1 : 0, packet ? packet : "",
         length, vnfErrorText(error));
  fflush(stdout);
}

int main(void) {
  int id = server(TCP);
  registerCallback(id, READ, handle);
  registerCallback(0, ERROR, failed);
  int sizes[2] = {1, 1000};
  int wrong[2] = {1, 0};
  SAY(initReqPool(wrong, 2));
  SAY(initReqPool(NULL, 2));
  SAY(initReqPool(sizes, 2));
  SAY(registerCallback(0, READ, handle));
  SAY(registerCallback(7, READ, handle));
  SAY(registerCallback(-1, READ, handle));
  SAY(registerCallback(99999, READ, handle));
  SAY(closeConn(1));
  SAY(sendData(1, NULL, 0));
  SAY_NULL(getPktBuf(1));
  SAY(createServer("", "nowhere", 0, TCP));
  SAY(createServer("no-such-interface-", "", 0, TCP));
  SAY(createServer("", "127.0.0.1", vnfServerPort(id) + 65536, TCP));
  SAY(createServer("", "203.0.113.1", 1, TCP));
  SAY(vnfServerPort(2));
  return run();
}
