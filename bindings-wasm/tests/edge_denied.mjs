// Imported by a host before it serves: it grants no TCP. By its file, since there is no package of that name around this one.
import { _denyTcp } from './tools/node_modules/@bytecodealliance/preview2-shim/dist/nodejs/sockets.js'

_denyTcp()
