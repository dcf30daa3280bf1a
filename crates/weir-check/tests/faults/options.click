// Options move the TCP header away from where a port is read at a fixed offset.
FromNetfront(wan) -> CheckIPHeader
- -> port :: Classifier(9/06 22/0016, -);
+ -> port :: IPClassifier(tcp dst port 22, -);
port [0] -> Discard;
port [1] -> ToNetfront(lan);

never wan lan tcp dst port 22
