// Two routers stand where one was: what had one hop to go does not arrive.
FromNetfront(lan) -> MarkIPHeader(0) -> DecIPTTL
- -> DecIPTTL
-> ToNetfront(wan);

all lan wan ip and ip ttl > 1
