# Figure 2.2: notifications for a phone, in batches, so that it may sleep between them. The paper's wait 120 seconds.
FromNetfront() ->
IPFilter(allow udp port 1500) ->
IPRewriter(pattern - - 172.16.15.133 - 0 0)
-> TimedUnqueue(5,100)
-> ToNetfront()

REQUIRE reach 0/0 172.16.15.133 udp 1500
