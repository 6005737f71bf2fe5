import java.io.ByteArrayInputStream
import java.io.ByteArrayOutputStream
import java.io.DataInputStream
import java.io.DataOutputStream
import lockwright.call

// One lock, by the function that is exported with uniffi. What is asked and told is as in Java's Request and Reply, its numbers
// are those of verb.rs.
const val OPEN = 3
const val LOCK = 4
const val HERE = 18
const val RELEASE = 22

const val TOLD = 1
const val GRANTED = 2
const val ENDED = 5

fun DataOutputStream.text(text: String) {
  val bytes = text.toByteArray()
  writeInt(bytes.size)
  write(bytes)
}

fun DataInputStream.text() = String(readNBytes(readInt()))

fun ask(verb: Int, wants: Int, write: DataOutputStream.() -> Unit): DataInputStream {
  val request = ByteArrayOutputStream()
  DataOutputStream(request).run {
    writeByte(verb)
    write()
  }
  val reply = DataInputStream(ByteArrayInputStream(call(request.toByteArray())))
  val told = reply.readByte().toInt()
  check(told == wants) { "verb $verb was answered with $told: ${reply.text()}" }
  return reply
}

/** The number that a client or a lock is asked by. */
fun DataInputStream.number(): Long {
  val shape = readByte().toInt()
  if (shape == 6) {
    readInt()
    return number()
  }
  return readLong()
}

fun main() {
  val client = ask(OPEN, TOLD) {
    writeBoolean(true)
    text("memory://")
    writeInt(0)
    writeBoolean(false)
  }.number()
  val lock = ask(LOCK, TOLD) {
    writeLong(client)
    text("orders:42")
    writeByte(0)
    writeInt(1)
    writeInt(1)
    writeInt(0)
  }.number()
  val grant = ask(HERE, GRANTED) {
    writeLong(lock)
    text("acquire")
    writeLong(0)
    writeBoolean(false)
  }
  val guard = grant.readLong()
  println("${grant.text()}: fencing token ${grant.readLong()}")
  println(ask(RELEASE, ENDED) { writeLong(guard) }.text())
}
