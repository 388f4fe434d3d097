// gRPC: around a handler.
import grpc from '@grpc/grpc-js';
import { createLimiter } from 'headgate';
import { clientKey } from 'headgate/http';

const limiter = createLimiter('100/1m');
const denied = { code: grpc.status.RESOURCE_EXHAUSTED, details: 'Quota Exceeded' };
const decide = async (call) => limiter.consume(clientKey(call.getPeer().replace(/:\d+$/, '')));
export const limited = (handler) => (call, callback) =>
  decide(call).then(
    ({ allowed }) => (allowed ? handler(call, callback) : callback(denied)),
    callback, // On a Unix socket, and after the client has left, there is no address.
  );
