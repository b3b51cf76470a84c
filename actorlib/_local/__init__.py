"""The owner's side of the embedded engine: who holds what, and the lives of actors.

What decides is pure and what acts is thin. In reading order:

* ``where``, ``wishes``: which devices a request wishes for, and how the user's names
  become such a wish.
* ``levels``, ``topology``, ``reach``, ``scopes``, ``packing``, ``spreading``,
  ``arrange``, ``placement``: devices by what they have free; those that belong
  together; those that are spoken for, and those that a wish leaves; where several
  shares find room, and where they lie apart; what the bundles of a group get; what a
  request gets.
* ``scheduler``: who gets which share, and who waits for one.
* ``ledger``, ``gaps``, ``line``, ``admission``, ``long_waits``: who holds what, whom a
  share would delay, who goes next, waiting for it, and saying so after a while.
* ``demands``: what actors ask for as things are now, while others come and go.
* ``reasons``: why, in sentences for the user.
* ``bundles``, ``group_reasons``, ``group``, ``groups``, ``group_verbs``: what a
  placement group has, and who is inside; why it waits; one; all of a runtime; what is
  asked of them.
* ``birth``: what an actor is made from.
* ``registry``, ``holders``, ``loans``: the actors and their states; who has a handle
  of which.
* ``names``, ``directory``: which name is whose, and who answers to it now.
* ``retries``, ``deadlines``, ``timekeeper``, ``terms``: which calls are sent again,
  and whose time is over; what of that holds for one actor's calls.
* ``held``, ``mailbox``, ``reply``, ``dispatch``: which calls wait for arguments, which
  may go, who wants the answers, and where each goes.
* ``marks``, ``under_way``: since when calls have no answer, and which of them run.
* ``retries``, ``mailbox``, ``dispatch``, ``streams``: which calls are sent again, and
  which may go; where each answer goes, and each item of a stream.
* ``launcher``, ``template``, ``process``, ``sweep``, ``output``, ``descriptors``:
  processes, and what they print.
* ``log_style``, ``repeats``, ``terminal``: how that looks here, which of it others have
  just printed too, and where it appears.
* ``log``: what the owner itself says, in no context of the user's.
* ``machine``: what there is, who may have it, what starts there.
* ``stores``: who made which shared memory, and who was shown it.
* ``session``: one incarnation of a worker, from its first frame to its end.
* ``last_words``, ``postmortem``: how it ended, in words.
* ``restarts``: whether and when an actor that died is started anew.
* ``surroundings``, ``moments``, ``place``: what a life needs; what others wait for; its
  share.
* ``teardown``, ``supervisor``: the steps of an end, each of which is done; the life of
  one actor, top to bottom.
* ``asked``, ``waiting``: which calls workers have asked for, and how they are answered.
* ``waits``, ``deadlocks``: who waits for which of them, and who waits in vain.
* ``relay``, ``opening``, ``creations``, ``outcomes``: what rises from workers: calls to
  other actors; what the owner itself unpickles of it; actors that they make; what
  becomes of an actor.
* ``callers``, ``introductions``: who calls an actor over links, and how they come to
  have one.
* ``debts``, ``objects``: what an actor has yet to pass on; what refs stand for that
  were sent inside of values.
* ``ahead``, ``tasks``, ``verdicts``: how many calls of functions are sent ahead; what
  calls and their workers are; telling those who wait.
* ``seats``, ``crew``, ``idle``, ``watch``: where workers get what a call holds; those
  that run what asks for the same; those with nothing to do, or too much.
* ``workers``, ``plans``: all of them, hired, sent calls and gone; which function is run
  by whom.
* ``pool``, ``runs``: every call of a function; how they come there.
* ``lives``: every life of the runtime, and who holds which actor.
* ``sending``, ``explaining``: the owner's calls on their way out; where an actor is.
* ``wakeup``: that no signal waits until the loop happens to wake.
* ``engine``, ``crossing``: the verbs; and the same from threads beside the loop's.
* ``timeline``, ``recording``: what was done and when; an engine that writes that down.
* ``which``: which of these engines it is.
"""
