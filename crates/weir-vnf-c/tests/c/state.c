// A protocol of lines: "s KEY VALUE" sets, "g KEY" gets, "d KEY" deletes, "k KEY" keeps the value and deletes the key, "u KEY" answers
// with the kept value and gives it back, "n" answers with number and core of the connection, "c NUMBER" uses another connection. Each is
// answered by a line.
#include "support.h"

static _Thread_local const char *kept;
static _Thread_local size_t kept_size;

static void answer(int connection, const char *text, size_t length) {
  char *packet = getPktBuf(connection);
  memcpy(packet, text, length);
  packet[length] = '\n';
  sendData(connection, packet, length + 1);
}

static void answer_error(int connection, int error) {
  answer(connection, vnfErrorText(error), strlen(vnfErrorText(error)));
}

static void was_set(int connection, const void *key, size_t key_size, void *request, int error) {
  (void)request, (void)error;
  answer(connection, (const char *)key, key_size);
}

static void got(int connection, const void *key, size_t key_size, const void *value, size_t size, void *request, int error) {
  (void)key, (void)key_size, (void)request;
  if (error != 0) {
    answer_error(connection, error);
  } else {
    answer(connection, (const char *)value, size);
  }
}

static void keep(int connection, const void *key, size_t key_size, const void *value, size_t size, void *request, int error) {
  (void)request;
  if (error == 0) {
    error = setKeyDNE("t", key, key_size);
    kept = (const char *)value;
    kept_size = size;
    delData("t", key, key_size, LOCAL);
    setData(0, "t", key, key_size, "new", 3, LOCAL, NULL);
  }
  answer_error(connection, error);
}

static void handle(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)error;
  const char *key = packet + 2;
  size_t key_size = length - 3;
  switch (packet[0]) {
    case 's': {
      const char *space = (const char *)memchr(key, ' ', key_size);
      setData(connection, "t", key, (size_t)(space - key), space + 1, (size_t)(key + key_size - space - 1), LOCAL, was_set);
      break;
    }
    case 'g': getData(connection, "t", key, key_size, LOCAL, got); break;
    case 'd': answer_error(connection, delData("t", key, key_size, LOCAL)); break;
    case 'k': getData(connection, "t", key, key_size, LOCAL, keep); break;
    case 'n': {
      char text[64];
      answer(connection, text, (size_t)snprintf(text, sizeof text, "%d %d", connection, vnfCore()));
      break;
    }
    case 'c': answer_error(connection, sendData(atoi(key), getPktBuf(connection), 0)); break;
    case 'u': {
      answer(connection, kept, kept_size);
      answer_error(connection, unsetKeyDNE("t", key, key_size));
      break;
    }
  }
}

int main(void) {
  registerCallback(server(TCP), READ, handle);
  return run();
}
