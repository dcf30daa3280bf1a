// The I-CSCF and the S-CSCF, and their connection with the HSS. A part of ims.c.

// The HSS, of one core. Who waits for an answer stands at the number of its question.
static _Thread_local int hss, greeted;
static _Thread_local struct request *waiting[WAITING];
static _Thread_local size_t hss_length;
static _Thread_local char hss_input[2 * DIAMETER];
static _Thread_local struct diameter early[64];
static _Thread_local int early_count;

static void hss_answer(struct request *request, uint32_t command, const unsigned char *avps, size_t length);

static void hss_end(int connection, void *unused, char *packet, size_t length, int error) {
  (void)unused, (void)packet, (void)length, (void)error;
  closeConn(connection);
  hss = greeted = early_count = 0;
  hss_length = 0;
  for (int i = 0; i < WAITING; i++) {
    if (waiting[i] != NULL) {
      respond(waiting[i], 504, "Server Time-out", "");
      waiting[i] = NULL;
    }
  }
}

static void hss_read(int connection, void *unused, char *packet, size_t length, int error) {
  int own = -1;
  if (!add(hss_input, &hss_length, sizeof hss_input, packet, length)) {
    hss_end(connection, unused, packet, length, error);
    return;
  }
  while ((own = diameter_length(hss_input, hss_length)) > 0) {
    const unsigned char *bytes = (unsigned char *)hss_input, *avps = bytes + HEADER;
    uint32_t command = word(bytes + 4) & 0xffffff;
    struct request **place = &waiting[word(bytes + 12) % WAITING], *request = *place;
    if (command == CAPABILITIES) {
      greeted = 1;
      for (int i = 0; i < early_count; i++) {
        send_bytes(hss, (char *)early[i].bytes, early[i].length);
      }
    } else if ((bytes[4] & REQUEST) == 0 && request != NULL && request->number == word(bytes + 12)) {
      *place = NULL;
      hss_answer(request, command, succeeded(avps, (size_t)own - HEADER) ? avps : NULL, (size_t)own - HEADER);
    }
    hss_length -= (size_t)own;
    memmove(hss_input, hss_input + own, hss_length);
  }
  if (own < 0) {
    hss_end(connection, unused, packet, length, error);
  }
}

// Asks the HSS for a request. Questions wait until it has said hello.
static void ask(struct request *request, struct diameter *message) {
  finish(message);
  waiting[request->number % WAITING] = request;
  if (hss <= 0) {
    struct diameter hello;
    hss = createClient("127.0.0.1", hss_port, TCP);
    registerCallback(hss, READ, hss_read);
    registerCallback(hss, ERROR, hss_end);
    begin(&hello, REQUEST, CAPABILITIES, 0, 0);
    put_capabilities(&hello, role);
    finish(&hello);
    send_bytes(hss, (char *)hello.bytes, hello.length);
  }
  if (greeted) {
    send_bytes(hss, (char *)message->bytes, message->length);
  } else if (early_count < 64) {
    early[early_count++] = *message;
  } else {
    waiting[request->number % WAITING] = NULL;
    respond(request, 503, "Service Unavailable", "");
  }
}

static void from_end(int from, void *object, char *packet, size_t length, int error) {
  struct request *request = (struct request *)object;
  (void)packet, (void)length, (void)error;
  if (request != NULL && waiting[request->number % WAITING] == request) {
    waiting[request->number % WAITING] = NULL;
  }
  if (request != NULL && request->up > 0) {
    closeConn(request->up);
  }
  closeConn(from);
}

static void from_accept(int from, void *object, char *packet, size_t length, int error) {
  (void)packet, (void)length, (void)error;
  struct request *request = (struct request *)(object = allocReqObj(from, 1));
  request->from = from;
}

// A request to a CSCF behind the first: read, and given on when it is complete. The next comes when it is answered.
static void from_read(int from, void *object, char *packet, size_t length, int error) {
  struct request *request = (struct request *)object;
  struct registration asked;
  struct diameter message;
  int whole = add(request->text, &request->length, SIP, packet, length) ? sip_length(request->text, request->length) : -1;
  if (whole == 0) {
    return;
  }
  osip_message_t *sip = whole > 0 && (size_t)whole == request->length ? sip_parse(request->text, request->length) : NULL;
  if (sip == NULL || !sip_registration(sip, &asked)) {
    from_end(from, object, packet, length, error);
  } else {
    request->number = ++number;
    request->tried = 0;
    if (strcmp(role, "icscf") == 0) {
      request->first = ++turn;
      question(&message, role, USER_AUTHORIZATION, request->number, asked.private, asked.public);
      put_text(&message, VISITED_NETWORK, "ims.example");
      put_number(&message, AUTHORIZATION_TYPE, asked.expires == 0);
      ask(request, &message);
    } else {
      void check(int, const void *, size_t, const void *, size_t, void *, int);
      if (getData(from, "ims-challenges", asked.private, strlen(asked.private), REMOTE, check) != 0) {
        respond(request, 500, "Server Internal Error", "");
      }
    }
  }
  if (sip != NULL) {
    osip_message_free(sip);
  }
}

// The I-CSCF.

static void forward(struct request *request);

static void replica_end(int up, void *object, char *packet, size_t length, int error) {
  (void)packet, (void)length, (void)error;
  closeConn(up);
  ((struct request *)object)->up = 0;
  forward((struct request *)object);
}

// A response, of the S-CSCF or, to the P-CSCF, of the I-CSCF: complete, it goes back to where its request came from.
static osip_message_t *response(struct request *request, const char *packet, size_t length) {
  if (!add(request->answer, &request->answer_length, SIP, packet, length) || sip_length(request->answer, request->answer_length) == 0) {
    return NULL;
  }
  osip_message_t *sip = sip_parse(request->answer, request->answer_length);
  if (sip != NULL) {
    sip_back(sip);
    sip_send(request->from, sip);
  }
  return sip;
}

static void replica_read(int up, void *object, char *packet, size_t length, int error) {
  struct request *request = (struct request *)object;
  (void)error;
  osip_message_t *sip = response(request, packet, length);
  if (sip != NULL) {
    osip_message_free(sip);
    request->length = 0;
    request->up = 0;
    closeConn(up);
  }
}

// Sends a request to the next replica, if one is left that it was not sent to.
static void forward(struct request *request) {
  if (request->tried == replicas) {
    respond(request, 504, "Server Time-out", "");
    return;
  }
  osip_message_t *sip = sip_parse(request->text, request->length);
  int up = createClient("127.0.0.1", replica_ports[(request->first + request->tried++) % replicas], TCP);
  if (sip != NULL && up > 0) {
    request->up = up;
    request->answer_length = 0;
    linkReqObj(up, request);
    registerCallback(up, READ, replica_read);
    registerCallback(up, ERROR, replica_end);
    sip_forward(sip, port, ++number);
    sip_send(up, sip);
  }
  if (sip != NULL) {
    osip_message_free(sip);
  }
  if (up <= 0) {
    forward(request);
  }
}

// The S-CSCF. What it has to remember is in Redis.

static void challenged(int from, const void *key, size_t key_size, void *object, int error) {
  struct request *request = (struct request *)object;
  char more[NAME * 2];
  (void)from, (void)key, (void)key_size;
  snprintf(more, sizeof more, "WWW-Authenticate: Digest realm=\"ims.example\", nonce=\"%.32s\", algorithm=MD5, qop=\"auth\"\r\n", request->challenge);
  if (error != 0) {
    respond(request, 500, "Server Internal Error", "");
  } else {
    respond(request, 401, "Unauthorized", more);
  }
}

// Redis has it: now the user may know.
static void registered(int from, const void *key, size_t key_size, void *object, int error) {
  struct request *request = (struct request *)object;
  struct registration asked;
  char more[NAME * 4];
  (void)from, (void)key, (void)key_size;
  osip_message_t *sip = sip_parse(request->text, request->length);
  if (sip == NULL || !sip_registration(sip, &asked) || error != 0) {
    respond(request, 500, "Server Internal Error", "");
  } else {
    int length = snprintf(more, sizeof more, "Service-Route: <%s;lr>\r\nP-Associated-URI: <%s>\r\n", SCSCF, asked.public);
    if (asked.expires > 0) {
      snprintf(more + length, sizeof more - (size_t)length, "Contact: %s;expires=%ld\r\n", asked.contact, asked.expires);
    }
    respond(request, 200, "OK", more);
  }
  if (sip != NULL) {
    osip_message_free(sip);
  }
}

// A call behind the one that deletes: when it is answered, that one is done.
static void deleted(int from, const void *key, size_t key_size, const void *value, size_t size, void *object, int error) {
  (void)value, (void)size;
  registered(from, key, key_size, object, error == VNF_NO_KEY ? 0 : error);
}

// Compares the answer to a challenge with what is right; without one, there is a challenge.
void check(int from, const void *key, size_t key_size, const void *value, size_t size, void *object, int error) {
  struct request *request = (struct request *)object;
  struct registration asked;
  struct diameter message, item = {0};
  char challenge[NAME] = "";
  (void)from, (void)key, (void)key_size;
  osip_message_t *sip = sip_parse(request->text, request->length);
  if (sip == NULL || !sip_registration(sip, &asked) || (error != 0 && error != VNF_NO_KEY)) {
    respond(request, 500, "Server Internal Error", "");
  } else {
    if (error == 0 && size < sizeof challenge && size > 33) {
      memcpy(challenge, value, size);
      challenge[32] = 0;
    }
    int right = challenge[0] == 0 ? -1 : sip_check(sip, challenge, challenge + 33);
    if (right == 0) {
      respond(request, 403, "Forbidden", "");
    } else if (right < 0) {
      question(&message, role, MULTIMEDIA_AUTH, request->number, asked.private, asked.public);
      put_number(&message, AUTH_ITEMS, 1);
      put_text(&item, AUTH_SCHEME, "SIP Digest");
      put(&message, AUTH_ITEM, item.bytes, item.length);
      put_text(&message, SERVER_NAME, SCSCF);
      ask(request, &message);
    } else {
      question(&message, role, SERVER_ASSIGNMENT, request->number, asked.private, asked.public);
      put_text(&message, SERVER_NAME, SCSCF);
      put_number(&message, ASSIGNMENT, asked.expires > 0 ? 1 : 5);
      put_number(&message, DATA_AVAILABLE, 0);
      ask(request, &message);
    }
  }
  if (sip != NULL) {
    osip_message_free(sip);
  }
}

static int keep(struct request *request, uint32_t command, const unsigned char *avps, size_t length, const struct registration *asked) {
  size_t item = 0, digest = 0;
  const char *private = asked->private, *public = asked->public;
  if (command == SERVER_ASSIGNMENT && asked->expires > 0) {
    return setData(request->from, "ims-places", public, strlen(public), asked->contact, strlen(asked->contact), REMOTE, registered);
  }
  if (command == SERVER_ASSIGNMENT) {
    int failed = delData("ims-places", public, strlen(public), REMOTE);
    return failed != 0 ? failed : getData(request->from, "ims-places", public, strlen(public), REMOTE, deleted);
  }
  unsigned char random[16];
  FILE *source = fopen("/dev/urandom", "r");
  if (source == NULL || fread(random, sizeof random, 1, source) != 1) {
    return -1;
  }
  fclose(source);
  for (int i = 0; i < 16; i++) {
    sprintf(request->challenge + 2 * i, "%02x", random[i]);
  }
  request->challenge[32] = ' ';
  const unsigned char *items = find(avps, length, AUTH_ITEM, &item), *digests = items == NULL ? NULL : find(items, item, DIGEST, &digest);
  if (digests == NULL || !find_text(digests, digest, DIGEST_HA1, request->challenge + 33, NAME - 33)) {
    return -1;
  }
  return setData(request->from, "ims-challenges", private, strlen(private), request->challenge, strlen(request->challenge), REMOTE, challenged);
}

// The HSS's answer for a request; avps is NULL if it refuses.
static void hss_answer(struct request *request, uint32_t command, const unsigned char *avps, size_t length) {
  struct registration asked;
  if (avps == NULL) {
    respond(request, 403, "Forbidden", "");
  } else if (command == USER_AUTHORIZATION) {
    forward(request);
  } else {
    osip_message_t *sip = sip_parse(request->text, request->length);
    if (sip == NULL || !sip_registration(sip, &asked) || keep(request, command, avps, length, &asked) != 0) {
      respond(request, 500, "Server Internal Error", "");
    }
    if (sip != NULL) {
      osip_message_free(sip);
    }
  }
}
