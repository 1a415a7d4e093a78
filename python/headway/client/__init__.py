"""A small async client of a gateway, with typed errors.

```python
async with Client("127.0.0.1:50051", api_key=key) as client:
    answer = await client.infer(text_request("the tide turns"), timeout_s=1.0)
    vectors = array_from_tensor(answer.output.tensors[0])

async with ControlClient("127.0.0.1:50052", api_key=admin_key) as control:
    print(await control.split("minilm"))
```

`BlockingClient` and `BlockingControlClient` do the same without an event loop.
"""

from headway.client.blocking import BlockingClient, BlockingControlClient
from headway.client.client import Client, Credentials, text_input, text_request
from headway.client.control import ControlClient
from headway.client.errors import GatewayUnreachable, UnexpectedStatus, from_call, from_status
from headway.client.many import ManyStream
from headway.client.retry import RetryPolicy
from headway.client.tls import ClientTls

__all__ = [
    "BlockingClient",
    "BlockingControlClient",
    "Client",
    "ClientTls",
    "ControlClient",
    "Credentials",
    "GatewayUnreachable",
    "ManyStream",
    "RetryPolicy",
    "UnexpectedStatus",
    "from_call",
    "from_status",
    "text_input",
    "text_request",
]
