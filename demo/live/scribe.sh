# A stand-in for an agent: it reads its prompt, thinks for a moment, and answers.
read -r prompt
sleep 1
echo "done: $prompt"
