// State as connections ask for it: LOCAL, or, with an argument, REMOTE. A protocol of lines: "s KEY VALUE" sets, "g KEY" gets, "d KEY" deletes, "k KEY" keeps the value and deletes the key, "u KEY" answers
// with the kept value and gives it back, "f KEY" gets what the cache has, "x KEY OLD NEW" compares and sets ("-": not there), "n" answers with number and core of the connection, "c NUMBER" uses another connection. Each is
// answered by a line.
#include "support.h"

static int location = LOCAL;
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
  (void)request;
  if (error != 0) {
    answer_error(connection, error);
  } else {
    answer(connection, (const char *)key, key_size);
  }
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
    delData("t", key, key_size, location);
    setData(0, "t", key, key_size, "new", 3, location, NULL);
  }
  answer_error(connection, error);
}

static void compared(int connection, const void *key, size_t key_size, const void *value, size_t size, void *request, int error) {
  (void)key, (void)key_size, (void)request;
  if (error == VNF_DIFFERS && value != NULL) {
    answer(connection, (const char *)value, size);
  } else {
    answer_error(connection, error);
  }
}

// Answers with what a call says at once, if it is an error.
static void reply(int connection, int error) {
  if (error != 0) {
    answer_error(connection, error);
  }
}

static void report(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)packet, (void)length;
  printf("%d: %s\n", connection, vnfErrorText(error));
  fflush(stdout);
}

static void handle(int connection, void *request, char *packet, size_t length, int error) {
  (void)request, (void)error;
  const char *key = packet + 2;
  size_t key_size = length - 3;
  switch (packet[0]) {
    case 's': {
      const char *space = (const char *)memchr(key, ' ', key_size);
      reply(connection, setData(connection, "t", key, (size_t)(space - key), space + 1, (size_t)(key + key_size - space - 1), location,
                                was_set));
      break;
    }
    case 'g': reply(connection, getData(connection, "t", key, key_size, location, got)); break;
    case 'd': answer_error(connection, delData("t", key, key_size, location)); break;
    case 'k': getData(connection, "t", key, key_size, location, keep); break;
    case 'f': reply(connection, getData(connection, "t", key, key_size, CHECKCACHE, got)); break;
    case 'x': {
      char *parts[3] = {packet + 2, NULL, NULL};
      packet[length - 1] = 0;
      for (int i = 1; i < 3; i++) {
        parts[i] = strchr(parts[i - 1], ' ');
        *parts[i]++ = 0;
      }
      const char *old = strcmp(parts[1], "-") == 0 ? NULL : parts[1], *new = strcmp(parts[2], "-") == 0 ? NULL : parts[2];
      reply(connection, compareAndSetData(connection, "t", parts[0], strlen(parts[0]), old, strlen(parts[1]), new, strlen(parts[2]),
                                          location, compared));
      break;
    }
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

int main(int argc, char *argv[]) {
  (void)argv;
  if (argc > 1) {
    location = REMOTE;
  }
  registerCallback(0, ERROR, report);
  registerCallback(server(TCP), READ, handle);
  return run();
}
