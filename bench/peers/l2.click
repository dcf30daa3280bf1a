in :: MemSource($TRACE, BURST 32, SECONDS $SECONDS);
out :: Discard;
s :: EtherSwitch;
in [0] -> [0] s; in [1] -> [1] s; s [0] -> out; s [1] -> out;
DriverManager(pause, print "out $(out.count) of $(in.count)");
