export * from 'headgate/compat/express-rate-limit';
export { default } from 'headgate/compat/express-rate-limit';
