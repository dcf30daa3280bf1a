// The functions of an IP multimedia subsystem that register users; see main.rs. A connection for each request, but to the HSS.
// Usage, all on 127.0.0.1:
// ims hss PORT FILE-OF-SUBSCRIBERS | scscf PORT HSS | icscf PORT HSS S-CSCF... | pcscf PORT I-CSCF
#include "diameter.h"
#include "sip.h"

enum { MOST_REPLICAS = 16, WAITING = 1 << 16, KNOWN = 1 << 14, USERS = 1 << 16 };

// A request, or what came of it so far. The first object of a connection that it came by; of a P-CSCF, of the one that it goes on by.
struct request {
  int from, up, first, tried, datagram;
  unsigned number; // Of the question to the HSS.
  size_t length, answer_length;
  char text[SIP], answer[SIP], challenge[NAME];
};

static const char *role;
static int port, hss_port, replica_ports[MOST_REPLICAS], replicas;

static _Thread_local unsigned number;
static _Thread_local int turn;

// Adds what came to a text; whether it fits.
static int add(char *text, size_t *length, size_t size, const char *packet, size_t more) {
  if (*length + more >= size) {
    return 0;
  }
  memcpy(text + *length, packet, more);
  *length += more;
  text[*length] = 0;
  return 1;
}

static void respond(struct request *request, int status, const char *reason, const char *more) {
  osip_message_t *message = sip_parse(request->text, request->length);
  request->length = 0;
  if (message != NULL) {
    sip_respond(request->from, message, status, reason, more);
    osip_message_free(message);
  }
}

#include "cscf.h"
#include "hss.h"

// The P-CSCF. Requests that came as datagrams are kept with their responses, for those that come again; each at the hash of its Via.
static _Thread_local struct known {
  char *via, *response;
} known[KNOWN];
static int udp;

static struct known *known_at(const char *via) {
  unsigned sum = 5381;
  for (const char *c = via; *c != 0; c++) {
    sum = sum * 33 + (unsigned char)*c;
  }
  return &known[sum % KNOWN];
}

static void icscf_read(int up, void *object, char *packet, size_t length, int error) {
  struct request *request = (struct request *)object;
  (void)error;
  osip_message_t *sip = response(request, packet, length);
  if (sip == NULL) {
    return;
  }
  char *via = sip_via(sip), *text;
  struct known *place = via == NULL ? NULL : known_at(via);
  if (place != NULL && place->via != NULL && strcmp(place->via, via) == 0 && osip_message_to_str(sip, &text, &length) == 0) {
    osip_free(place->response);
    place->response = text;
  }
  osip_free(via);
  osip_message_free(sip);
  if (request->datagram) {
    freeReqObj(request->from);
  }
  closeConn(up);
}

static void icscf_end(int up, void *object, char *packet, size_t length, int error) {
  (void)packet, (void)length, (void)error;
  struct request *request = (struct request *)object;
  respond(request, 504, "Server Time-out", "");
  closeConn(up);
}

static void user_request(int from, const char *text, size_t length, int datagram) {
  struct registration asked;
  char path[NAME];
  osip_message_t *sip = sip_parse(text, length);
  if (sip == NULL || !MSG_IS_REQUEST(sip) || sip->from == NULL || sip->to == NULL || sip->call_id == NULL || sip->cseq == NULL) {
    osip_message_free(sip);
    if (!datagram) {
      closeConn(from);
    }
    return;
  }
  char *via = sip_via(sip);
  struct known *place = via == NULL ? NULL : known_at(via);
  if (place == NULL || !sip_registration(sip, &asked)) {
    sip_respond(from, sip, 400, "Bad Request", "");
  } else if (datagram && place->via != NULL && strcmp(place->via, via) == 0) {
    if (place->response != NULL) {
      send_bytes(from, place->response, strlen(place->response));
    }
  } else {
    if (datagram) {
      osip_free(place->via);
      osip_free(place->response);
      *place = (struct known){.via = osip_strdup(via)};
    }
    int up = createClient("127.0.0.1", hss_port, TCP);
    struct request *request = up > 0 ? allocReqObj(up, 1) : NULL;
    if (request == NULL || !sip_forward(sip, port, ++number)) {
      sip_respond(from, sip, 483, "Too Many Hops", "");
      closeConn(up);
    } else {
      request->from = from;
      request->datagram = datagram;
      add(request->text, &request->length, SIP, text, length);
      if (datagram) {
        linkReqObj(from, request);
      }
      registerCallback(up, READ, icscf_read);
      registerCallback(up, ERROR, icscf_end);
      snprintf(path, sizeof path, "<sip:127.0.0.1:%d;lr>", port);
      osip_message_set_header(sip, "Path", path);
      osip_message_set_header(sip, "P-Visited-Network-ID", "ims.example");
      sip_send(up, sip);
    }
  }
  osip_free(via);
  osip_message_free(sip);
}

static void datagram_read(int from, void *object, char *packet, size_t length, int error) {
  char text[SIP];
  (void)object, (void)error;
  if (length < SIP && memchr(packet, 0, length) == NULL) {
    memcpy(text, packet, length);
    text[length] = 0;
    user_request(from, text, length, 1);
  }
}

static void stream_read(int from, void *object, char *packet, size_t length, int error) {
  struct request *input = (struct request *)object;
  int whole = -1;
  (void)error;
  if (input != NULL && add(input->text, &input->length, SIP, packet, length)) {
    while ((whole = sip_length(input->text, input->length)) > 0) {
      user_request(from, input->text, (size_t)whole, 0);
      input->length -= (size_t)whole;
      memmove(input->text, input->text + whole, input->length + 1);
      if (input->length == 0) {
        return;
      }
    }
  }
  if (whole < 0) {
    closeConn(from);
  }
}

int main(int argc, char *argv[]) {
  if (argc < 4 || argc - 4 > MOST_REPLICAS) {
    fputs("usage: ims hss PORT FILE | scscf PORT HSS | icscf PORT HSS S-CSCF... | pcscf PORT I-CSCF\n", stderr);
    return 2;
  }
  role = argv[1];
  port = atoi(argv[2]);
  hss_port = atoi(argv[3]);
  for (int i = 4; i < argc; i++) {
    replica_ports[replicas++] = atoi(argv[i]);
  }
  int sizes[] = {sizeof(struct request)}, is_hss = strcmp(role, "hss") == 0, is_pcscf = strcmp(role, "pcscf") == 0;
  if (is_hss) {
    load(argv[3]);
  }
  parser_init();
  initReqPool(sizes, 1);
  int server = createServer("", "127.0.0.1", port, TCP);
  registerCallback(server, ACCEPT, from_accept);
  registerCallback(server, READ, is_hss ? question_read : is_pcscf ? stream_read : from_read);
  registerCallback(server, ERROR, from_end);
  if (is_pcscf) {
    udp = createServer("", "127.0.0.1", port, UDP);
    registerCallback(udp, READ, datagram_read);
  }
  return startEventLoop();
}
