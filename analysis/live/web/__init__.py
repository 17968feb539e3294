"""The live page in the browser: views -> parts -> messages -> clients.

page = LivePage("127.0.0.1", 8765, wake=follower.wake)    # server.py: serves until it is closed
for turn in session.turns(stop):
    page.show(session.views)                              # computes nothing while there are no clients
page.close()
"""
