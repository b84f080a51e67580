// The package for require(). index.mjs has the same names for import.
'use strict';

const { native, setLog } = require('./native.js');
const { makeError, ...errors } = require('./errors.js');
const { TableLeaseProvider, ...tables } = require('./tables.js');

module.exports = {
  version: native.version,
  setLog,
  ...errors,
  ...tables,
  ...require('./client.js'),
  ...require('./http.js'),
  ...require('./values.js'),
  ...require('./constants.js'),
};
